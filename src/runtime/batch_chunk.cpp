#include "runtime/batch_chunk.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tessera::runtime {
namespace {

constexpr index_t alignment = 16;        // that kernels copy at once
constexpr index_t part_alignment = 256;  // of what begins anew
constexpr index_t numbers = 6;           // m, n, k and the leading dimensions
constexpr index_t addresses = 3;

constexpr index_t aligned(index_t bytes, index_t to = alignment) { return (bytes + to - 1) / to * to; }

/// Rows and columns as they are stored.
StoredShape shape_of_a(const ProductForm& form, const Product& p) {
  return form.op_a == Op::no_trans ? StoredShape{p.m, p.k} : StoredShape{p.k, p.m};
}
StoredShape shape_of_b(const ProductForm& form, const Product& p) {
  return form.op_b == Op::no_trans ? StoredShape{p.k, p.n} : StoredShape{p.n, p.k};
}

bool same(StoredShape one, StoredShape other) { return one.rows == other.rows && one.cols == other.cols; }

/// Of products of one form.
bool share_a(const ProductForm& form, const Product& one, const Product& other) {
  return one.A == other.A && one.lda == other.lda && same(shape_of_a(form, one), shape_of_a(form, other));
}
bool share_b(const ProductForm& form, const Product& one, const Product& other) {
  return one.B == other.B && one.ldb == other.ldb && same(shape_of_b(form, one), shape_of_b(form, other));
}

/// The bytes of a packed matrix.
index_t bytes_of(StoredShape shape, index_t element) { return aligned(shape.rows * shape.cols * element); }

void copy_columns(std::byte* to, index_t to_pitch, const std::byte* from, index_t from_pitch, index_t column,
                  index_t columns) {
  if (to_pitch == column && from_pitch == column) {
    std::memcpy(to, from, static_cast<std::size_t>(column * columns));
    return;
  }
  for (index_t j = 0; j < columns; ++j)
    std::memcpy(to + j * to_pitch, from + j * from_pitch, static_cast<std::size_t>(column));
}

void pack_matrix(std::byte* to, const void* from, index_t ld, StoredShape shape, index_t element) {
  const index_t column = shape.rows * element;
  copy_columns(to, column, static_cast<const std::byte*>(from), ld * element, column, shape.cols);
}

/// The arrays at the beginning of a chunk.
class Header {
 public:
  Header(std::byte* to, std::byte* on_device, index_t count) : to_(to), on_device_(on_device), count_(count) {}

  static index_t bytes(index_t count) {
    constexpr index_t of_each = numbers * index_t{sizeof(int)} + addresses * index_t{sizeof(void*)};
    return aligned(count * of_each, part_alignment);
  }

  // Addresses come first, since they need the larger alignment.
  void set_address(index_t which, index_t product, std::byte* value) {
    std::memcpy(to_ + address_at(which, product), &value, sizeof(value));
  }
  void set_number(index_t which, index_t product, index_t value) {
    const int narrow = static_cast<int>(value);
    std::memcpy(to_ + number_at(which, product), &narrow, sizeof(narrow));
  }
  const std::byte* address_array(index_t which) const { return on_device_ + address_at(which, 0); }
  const std::byte* number_array(index_t which) const { return on_device_ + number_at(which, 0); }

 private:
  index_t address_at(index_t which, index_t product) const {
    return (which * count_ + product) * index_t{sizeof(void*)};
  }
  index_t number_at(index_t which, index_t product) const {
    return addresses * count_ * index_t{sizeof(void*)} + (which * count_ + product) * index_t{sizeof(int)};
  }

  std::byte* to_;
  std::byte* on_device_;
  index_t count_;
};

/// A size or leading dimension of each, or the one of all.
class Numbers {
 public:
  Numbers(Header& header, index_t which) : header_(header), which_(which) {}
  void set(index_t product, index_t value) {
    header_.set_number(which_, product, value);
    least_ = product == 0 ? value : std::min(least_, value);
    most_ = std::max(most_, value);
  }
  index_t most() const { return most_; }
  kernels::NumberOfEach of_each() const {
    if (least_ == most_) return {.of_all = most_};
    return {.of_each = header_.number_array(which_)};
  }

 private:
  Header& header_;
  index_t which_;
  index_t least_ = 0;
  index_t most_ = 0;
};

ChunkBytes bytes_of(const GemmBatch& batch, const Chunk& chunk) {
  ChunkBytes bytes(batch.type);
  for (index_t i = chunk.first; i < chunk.last; ++i) bytes.add(batch.form_of(batch.product(i)), batch.product(i));
  return bytes;
}

}  // namespace

void ChunkBytes::add(const ProductForm& form, const Product& product) {
  if (former_ == nullptr || !share_a(form, *former_, product))
    operands_ += bytes_of(shape_of_a(form, product), element_);
  if (former_ == nullptr || !share_b(form, *former_, product))
    operands_ += bytes_of(shape_of_b(form, product), element_);
  results_ += bytes_of({product.m, product.n}, element_);
  former_ = &product;
  ++count_;
}

index_t ChunkBytes::header() const { return Header::bytes(count_); }
index_t ChunkBytes::results() const { return aligned(header() + operands_, part_alignment); }

index_t packed_bytes(ScalarType type, const ProductForm& form, const Product& product) {
  ChunkBytes bytes(type);
  bytes.add(form, product);
  return bytes.all();
}

std::vector<Chunk> cut_into_chunks(const GemmBatch& batch, index_t most_bytes) {
  std::vector<Chunk> chunks;
  ChunkBytes bytes(batch.type);
  for (index_t i = 0; i < batch.size(); ++i) {
    const Product& product = batch.product(i);
    const ProductForm& form = batch.form_of(product);
    const bool goes_on = !chunks.empty() && chunks.back().fits && batch.product(i - 1).form == product.form;
    ChunkBytes with = goes_on ? bytes : ChunkBytes(batch.type);
    with.add(form, product);
    if (goes_on && with.all() <= most_bytes) {
      chunks.back().last = i + 1;
    } else {
      with = ChunkBytes(batch.type);
      with.add(form, product);
      chunks.push_back({i, i + 1, with.all() <= most_bytes});
    }
    bytes = with;
  }
  return chunks;
}

PackedChunk pack(const GemmBatch& batch, const Chunk& chunk, std::byte* to, std::byte* on_device) {
  const ChunkBytes bytes = bytes_of(batch, chunk);
  const ProductForm& form = batch.form_of(batch.product(chunk.first));
  const bool reads_c = form.beta != AnyScalar(0);
  const auto element = static_cast<index_t>(element_bytes(batch.type));
  Header header(to, on_device, chunk.count());
  Numbers m(header, 0), n(header, 1), k(header, 2), lda(header, 3), ldb(header, 4), ldc(header, 5);
  PackedChunk packed;
  index_t next = bytes.header(), result = bytes.results(), a = 0, b = 0, volume = 0;
  for (index_t i = chunk.first; i < chunk.last; ++i) {
    const Product& p = batch.product(i);
    const index_t at = i - chunk.first;
    const StoredShape of_a = shape_of_a(form, p), of_b = shape_of_b(form, p);
    if (at == 0 || !share_a(form, batch.product(i - 1), p)) {
      a = std::exchange(next, next + bytes_of(of_a, element));
      pack_matrix(to + a, p.A, p.lda, of_a, element);
    }
    if (at == 0 || !share_b(form, batch.product(i - 1), p)) {
      b = std::exchange(next, next + bytes_of(of_b, element));
      pack_matrix(to + b, p.B, p.ldb, of_b, element);
    }
    if (reads_c) pack_matrix(to + result, p.C, p.ldc, {p.m, p.n}, element);
    header.set_address(0, at, on_device + a);
    header.set_address(1, at, on_device + b);
    header.set_address(2, at, on_device + result);
    result += bytes_of({p.m, p.n}, element);
    m.set(at, p.m);
    n.set(at, p.n);
    k.set(at, p.k);
    lda.set(at, of_a.rows);
    ldb.set(at, of_b.rows);
    ldc.set(at, p.m);
    volume += p.m * p.n * p.k;
  }
  packed.flops = flops_of_volume(batch.type, volume);
  packed.results_first = bytes.results();
  packed.results_bytes = bytes.all() - bytes.results();
  packed.up_bytes = reads_c ? bytes.all() : bytes.results();
  packed.batch = {.common = {.type = batch.type,
                             .op_a = form.op_a,
                             .op_b = form.op_b,
                             .m = m.most(),
                             .n = n.most(),
                             .k = k.most(),
                             .alpha = form.alpha,
                             .beta = form.beta},
                  .count = chunk.count(),
                  .m = m.of_each(),
                  .n = n.of_each(),
                  .k = k.of_each(),
                  .lda = lda.of_each(),
                  .ldb = ldb.of_each(),
                  .ldc = ldc.of_each(),
                  .A = {.of_each = header.address_array(0)},
                  .B = {.of_each = header.address_array(1)},
                  .C = {.of_each = header.address_array(2)}};
  return packed;
}

void unpack(const GemmBatch& batch, const Chunk& chunk, const PackedChunk& packed, const std::byte* from) {
  const auto element = static_cast<index_t>(element_bytes(batch.type));
  const std::byte* result = from + packed.results_first;
  for (index_t i = chunk.first; i < chunk.last; ++i) {
    const Product& p = batch.product(i);
    const index_t column = p.m * element;
    copy_columns(static_cast<std::byte*>(p.C), p.ldc * element, result, column, column, p.n);
    result += bytes_of({p.m, p.n}, element);
  }
}

}  // namespace tessera::runtime
