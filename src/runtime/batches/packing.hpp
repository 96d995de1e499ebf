// How batches are cut into chunks and packed (batch_chunk.hpp), whatever they compute.
//
// Columns are packed tight, every matrix begins at a multiple of 16 bytes. Operands that are only written do not go up.
// Operands that are only read do not come down, and are packed once where neighbours share them. The rest of a
// triangle's square takes space, but is neither read nor written here.
//
// A description Problems of a batch has
//   operands                    how many matrices a problem may have
//   with_ld                     how many of these, the first ones, have a leading dimension
//   size()                      problems
//   has_same_form(i, j)         whether these go in one chunk
//   roles(i)                    Roles<operands>: what becomes of the operands of problems of that form
//   operands_of(i)              Operands<operands>
//   sizes_of(i)                 Sizes
//   flops_of(i)
//   workspace_bytes(i)          of the device, for the time of the launch
//   has_info(), set_info(i, n)  a number per problem that comes down
//   batch_of(i, arrays)         what is launched for problems of that form
//   name(), kernel_name()       see PackableBatch
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/scalar.hpp"
#include "kernels/level3_batch.hpp"
#include "runtime/batches/batch_chunk.hpp"

namespace tessera::runtime::packing {

inline constexpr index_t alignment = 16;        // that kernels copy at once
inline constexpr index_t part_alignment = 256;  // of what begins anew

constexpr index_t aligned(index_t bytes, index_t to = alignment) { return (bytes + to - 1) / to * to; }

/// How a device uses an operand.
enum class Use : std::uint8_t { none, read, update, write };

struct Role {
  Use use = Use::none;
  index_t element_bytes = 0;
  Part part = Part::full;
};
template <std::size_t operands>
using Roles = std::array<Role, operands>;

/// A matrix in the caller's memory, or a vector: one column.
struct Operand {
  const void* at = nullptr;
  index_t ld = 0;  ///< elements
  index_t rows = 0, cols = 0;

  bool operator==(const Operand&) const = default;
  index_t packed_bytes(const Role& role) const { return aligned(rows * cols * role.element_bytes); }
};
template <std::size_t operands>
using Operands = std::array<Operand, operands>;

inline constexpr std::size_t size_count = 3;
using Sizes = std::array<index_t, size_count>;

/// Where a device finds the problems of a chunk.
template <class Problems>
struct ChunkArrays {
  index_t count = 0;
  Sizes largest{};
  std::array<kernels::NumberOfEach, size_count> sizes;
  std::array<kernels::NumberOfEach, Problems::with_ld> ld;
  std::array<kernels::UntypedMatrixOfEach, Problems::operands> matrices;
  void* info = nullptr;
};

/// copy(packed column, caller's column, bytes) for each column of what belongs to the part.
template <class Copy>
void for_each_column(const Operand& operand, const Role& role, Copy&& copy) {
  const index_t element = role.element_bytes;
  const index_t column = operand.rows * element, pitch = operand.ld * element;
  if (role.part == Part::full) {
    if (pitch == column || operand.cols == 1) return copy(index_t{0}, index_t{0}, column * operand.cols);
    for (index_t j = 0; j < operand.cols; ++j) copy(j * column, j * pitch, column);
    return;
  }
  for (index_t j = 0; j < operand.cols; ++j) {
    const index_t first = role.part == Part::lower ? j * element : 0;
    const index_t last = role.part == Part::lower ? column : (j + 1) * element;
    copy(j * column + first, j * pitch + first, last - first);
  }
}

inline void pack_operand(std::byte* to, const Operand& operand, const Role& role) {
  const auto* const from = static_cast<const std::byte*>(operand.at);
  for_each_column(operand, role, [&](index_t packed, index_t given, index_t bytes) {
    std::memcpy(to + packed, from + given, static_cast<std::size_t>(bytes));
  });
}

inline void unpack_operand(const Operand& operand, const Role& role, const std::byte* from) {
  auto* const to = static_cast<std::byte*>(const_cast<void*>(operand.at));
  for_each_column(operand, role, [&](index_t packed, index_t given, index_t bytes) {
    std::memcpy(to + given, from + packed, static_cast<std::size_t>(bytes));
  });
}

/// The arrays at the beginning of a chunk.
class Header {
 public:
  Header(std::byte* to, std::byte* on_device, index_t count, index_t addresses)
      : to_(to), on_device_(on_device), count_(count), addresses_(addresses) {}

  static index_t bytes(index_t count, index_t addresses, index_t numbers) {
    const index_t of_each = numbers * index_t{sizeof(int)} + addresses * index_t{sizeof(void*)};
    return aligned(count * of_each, part_alignment);
  }

  // Addresses come first, since they need the larger alignment.
  void set_address(index_t which, index_t problem, std::byte* value) {
    std::memcpy(to_ + address_at(which, problem), &value, sizeof(value));
  }
  void set_number(index_t which, index_t problem, index_t value) {
    const int narrow = static_cast<int>(value);
    std::memcpy(to_ + number_at(which, problem), &narrow, sizeof(narrow));
  }
  const std::byte* address_array(index_t which) const { return on_device_ + address_at(which, 0); }
  const std::byte* number_array(index_t which) const { return on_device_ + number_at(which, 0); }

 private:
  index_t address_at(index_t which, index_t problem) const {
    return (which * count_ + problem) * index_t{sizeof(void*)};
  }
  index_t number_at(index_t which, index_t problem) const {
    return addresses_ * count_ * index_t{sizeof(void*)} + (which * count_ + problem) * index_t{sizeof(int)};
  }

  std::byte* to_;
  std::byte* on_device_;
  index_t count_;
  index_t addresses_;
};

/// A size or leading dimension of each, or the one of all.
class Numbers {
 public:
  void set(Header& header, index_t which, index_t problem, index_t value) {
    header.set_number(which, problem, value);
    least_ = problem == 0 ? value : std::min(least_, value);
    most_ = std::max(most_, value);
  }
  index_t most() const { return most_; }
  kernels::NumberOfEach of_each(const Header& header, index_t which) const {
    if (least_ == most_) return {.of_all = most_};
    return {.of_each = header.number_array(which)};
  }

 private:
  index_t least_ = 0;
  index_t most_ = 0;
};

/// Bytes that so many problems take, as they are added one by one; and where the parts begin.
template <class Problems>
class ChunkBytes {
 public:
  explicit ChunkBytes(const Problems& problems) : problems_(&problems) {}

  /// Adds the next one.
  void add(index_t i) {
    const auto roles = problems_->roles(i);
    const auto operands = problems_->operands_of(i);
    for (std::size_t o = 0; o < operands.size(); ++o) {
      const bool is_shared = roles[o].use == Use::read && count_ > 0 && former_[o] == operands[o];
      if (!is_shared) of_use_[static_cast<std::size_t>(roles[o].use)] += operands[o].packed_bytes(roles[o]);
    }
    workspace_ += problems_->workspace_bytes(i);
    former_ = operands;
    ++count_;
  }

  index_t first_of(Use use) const {
    constexpr index_t numbers = size_count + Problems::with_ld;
    index_t at = Header::bytes(count_, Problems::operands, numbers);
    for (const Use before : {Use::read, Use::update, Use::write}) {
      if (before == use) break;
      at = aligned(at + of_use_[static_cast<std::size_t>(before)], part_alignment);
    }
    return at;
  }
  index_t info() const { return first_of(Use::write) + of_use_[static_cast<std::size_t>(Use::write)]; }
  index_t end_of_results() const { return info() + (problems_->has_info() ? count_ * index_t{sizeof(int)} : 0); }
  index_t workspace() const { return aligned(end_of_results(), part_alignment); }
  index_t workspace_bytes() const { return workspace_; }
  index_t all() const { return workspace_ > 0 ? workspace() + workspace_ : end_of_results(); }
  bool updates() const { return of_use_[static_cast<std::size_t>(Use::update)] > 0; }

 private:
  const Problems* problems_;
  index_t count_ = 0;
  std::array<index_t, 4> of_use_{};
  index_t workspace_ = 0;
  Operands<Problems::operands> former_{};
};

template <class Problems>
class Packable final : public PackableBatch {
 public:
  explicit Packable(Problems problems) : problems_(std::move(problems)) {}

  index_t size() const override { return problems_.size(); }
  std::string name() const override { return problems_.name(); }
  const char* kernel_name() const override { return problems_.kernel_name(); }

  double flops(index_t first, index_t last) const override {
    double sum = 0;
    for (index_t i = first; i < last; ++i) sum += problems_.flops_of(i);
    return sum;
  }

  index_t packed_bytes(index_t problem) const override { return bytes_of({problem, problem + 1}).all(); }

  std::vector<Chunk> cut(index_t most_bytes) const override {
    std::vector<Chunk> chunks;
    Bytes bytes(problems_);
    for (index_t i = 0; i < size(); ++i) {
      const bool goes_on = !chunks.empty() && chunks.back().fits && problems_.has_same_form(i - 1, i);
      Bytes with = goes_on ? bytes : Bytes(problems_);
      with.add(i);
      if (goes_on && with.all() <= most_bytes) {
        chunks.back().last = i + 1;
      } else {
        with = Bytes(problems_);
        with.add(i);
        chunks.push_back({i, i + 1, with.all() <= most_bytes});
      }
      bytes = with;
    }
    return chunks;
  }

  PackedChunk pack(const Chunk& chunk, std::byte* to, std::byte* on_device) const override {
    const Bytes bytes = bytes_of(chunk);
    const auto roles = problems_.roles(chunk.first);
    Header header(to, on_device, chunk.count(), count_of(Problems::operands));
    std::array<Numbers, number_count> numbers;
    Cursors next(bytes);
    std::array<index_t, Problems::operands> at{};
    Operands<Problems::operands> former{};
    PackedChunk packed;
    for (index_t i = chunk.first; i < chunk.last; ++i) {
      const index_t place = i - chunk.first;
      const auto operands = problems_.operands_of(i);
      for (std::size_t o = 0; o < operands.size(); ++o) {
        const Role& role = roles[o];
        if (role.use == Use::none) continue;
        if (place == 0 || role.use != Use::read || operands[o] != former[o]) {
          at[o] = next.take(role.use, operands[o].packed_bytes(role));
          if (role.use != Use::write && operands[o].cols > 0) pack_operand(to + at[o], operands[o], role);
        }
        header.set_address(count_of(o), place, on_device + at[o]);
      }
      former = operands;
      const Sizes sizes = problems_.sizes_of(i);
      for (std::size_t number = 0; number < number_count; ++number) {
        const index_t value = number < size_count ? sizes[number] : operands[number - size_count].rows;
        numbers[number].set(header, count_of(number), place, value);
      }
    }
    packed.flops = flops(chunk.first, chunk.last);
    packed.results_first = bytes.updates() ? bytes.first_of(Use::update) : bytes.first_of(Use::write);
    packed.results_bytes = bytes.end_of_results() - packed.results_first;
    packed.up_bytes = bytes.first_of(Use::write);
    packed.workspace = {on_device + bytes.workspace(), static_cast<std::size_t>(bytes.workspace_bytes())};
    std::byte* const info = problems_.has_info() ? on_device + bytes.info() : nullptr;
    packed.batch = problems_.batch_of(chunk.first, arrays_of(chunk.count(), header, numbers, roles, info));
    return packed;
  }

  void unpack(const Chunk& chunk, const PackedChunk& packed, const std::byte* from) const override {
    const Bytes bytes = bytes_of(chunk);
    const auto roles = problems_.roles(chunk.first);
    Cursors next(bytes);
    for (index_t i = chunk.first; i < chunk.last; ++i) {
      const auto operands = problems_.operands_of(i);
      for (std::size_t o = 0; o < operands.size(); ++o) {
        const Role& role = roles[o];
        if (role.use != Use::update && role.use != Use::write) continue;
        const index_t at = next.take(role.use, operands[o].packed_bytes(role));
        if (operands[o].cols > 0) unpack_operand(operands[o], role, from + at);
      }
    }
    if (!problems_.has_info()) return;
    for (index_t i = chunk.first; i < chunk.last; ++i) {
      int info = 0;
      std::memcpy(&info, from + bytes.info() + (i - chunk.first) * index_t{sizeof(int)}, sizeof(info));
      problems_.set_info(i, info);
    }
    static_cast<void>(packed);
  }

 private:
  using Bytes = ChunkBytes<Problems>;
  static constexpr std::size_t number_count = size_count + Problems::with_ld;
  static constexpr index_t count_of(std::size_t number) { return static_cast<index_t>(number); }

  /// Where the next operand of a use goes.
  class Cursors {
   public:
    explicit Cursors(const Bytes& bytes) {
      for (const Use use : {Use::read, Use::update, Use::write}) next_[number_of(use)] = bytes.first_of(use);
    }
    index_t take(Use use, index_t bytes) { return std::exchange(next_[number_of(use)], next_[number_of(use)] + bytes); }

   private:
    static std::size_t number_of(Use use) { return static_cast<std::size_t>(use); }
    std::array<index_t, 4> next_{};
  };

  Bytes bytes_of(const Chunk& chunk) const {
    Bytes bytes(problems_);
    for (index_t i = chunk.first; i < chunk.last; ++i) bytes.add(i);
    return bytes;
  }

  static ChunkArrays<Problems> arrays_of(index_t count, const Header& header,
                                         const std::array<Numbers, number_count>& numbers,
                                         const Roles<Problems::operands>& roles, void* info) {
    ChunkArrays<Problems> arrays{.count = count, .sizes = {}, .ld = {}, .matrices = {}, .info = info};
    for (std::size_t number = 0; number < number_count; ++number) {
      kernels::NumberOfEach& of_each = number < size_count ? arrays.sizes[number] : arrays.ld[number - size_count];
      of_each = numbers[number].of_each(header, count_of(number));
      if (number < size_count) arrays.largest[number] = numbers[number].most();
    }
    for (std::size_t o = 0; o < roles.size(); ++o) {
      if (roles[o].use != Use::none) arrays.matrices[o].of_each = header.address_array(count_of(o));
    }
    return arrays;
  }

  Problems problems_;
};

}  // namespace tessera::runtime::packing
