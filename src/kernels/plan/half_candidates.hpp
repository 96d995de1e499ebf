// From which blocks those of half_blocks.inc are chosen (bench/half_blocks.cpp): all that there could be, pruned by what a
// multiprocessor has (hard) and by what has no chance (soft). Source: Abdelfattah, Tomov, Dongarra, "Matrix multiplication
// on batches of small matrices in half and half-complex precisions", section 5.8.
#pragma once

#include <array>
#include <cstddef>

#include "core/half.hpp"
#include "kernels/plan/half_blocks.hpp"

namespace tessera::kernels::plan {

namespace detail {

struct HalfMultiprocessor {
  static constexpr int registers = 65536, registers_of_thread = 255, shared_bytes = 227 << 10;
};

constexpr int half_threads(const HalfBlocks& b) { return 32 * b.warps_down * b.warps_across; }

/// Of a problem: stages, or sums on their way to C; and what the problem is told by.
constexpr int half_shared_bytes(const HalfBlocks& b, int parts) {
  const int stages = b.stages * (b.rows + b.columns) * b.depth * parts * 2;
  const int sums = 16 * b.warps_across * (b.rows + 8) * parts * 4;
  return (stages > sums ? stages : sums) + 320;
}

/// Sums, fragments, what is on its way to a stage, and addresses.
constexpr int half_registers(const HalfBlocks& b, int parts) {
  const int rows = b.rows / b.warps_down, columns = b.columns / b.warps_across;
  const int sums = rows * columns / 32 * parts, fragments = rows / 16 * parts * 4 + 8 * parts;
  const int held = (b.rows + b.columns) * b.depth / half_threads(b) * parts / 2;
  return sums + fragments + held + 64;
}

constexpr bool is_possible(const HalfBlocks& b, int parts) {
  if (b.rows % (16 * b.warps_down) != 0 || b.columns % (16 * b.warps_across) != 0) return false;
  return half_registers(b, parts) <= HalfMultiprocessor::registers_of_thread &&
         b.problems * half_shared_bytes(b, parts) <= HalfMultiprocessor::shared_bytes;
}

constexpr bool has_a_chance(const HalfBlocks& b, int parts) {
  const int rows = b.rows / b.warps_down, columns = b.columns / b.warps_across, elements = b.rows * b.columns;
  // Long blocks load more for each product, and those of a batch are too small for the largest.
  if (b.rows > 2 * b.columns || b.columns > 2 * b.rows || rows > 2 * columns || columns > 2 * rows) return false;
  if (elements * parts > 16384 || (elements < 1024 && b.rows != b.columns)) return false;
  // Warps with few sums spend their time on addresses, and more than eight wait for each other.
  const int warps = half_threads(b) / 32;
  if (rows * columns < (elements > 1024 ? 512 : 256) || (elements >= 4096 && warps < 4)) return false;
  // What is deep and has many stages has all of a small product on its way.
  return b.depth * b.stages <= 128 && (elements > 1024 || b.stages == 2);
}

}  // namespace detail

/// Calls visit(blocks) for each of them.
template <class Visit>
constexpr void for_each_half_candidate(HalfType type, Visit&& visit) {
  using Has = detail::HalfMultiprocessor;
  const int parts = is_complex(type) ? 2 : 1;
  for (const int rows : {16, 32, 64, 128}) {
    for (const int columns : {16, 32, 64, 128}) {
      for (const int depth : {16, 32, 64}) {
        for (const int down : {1, 2, 4}) {
          for (const int across : {1, 2, 4}) {
            for (const int stages : {2, 3}) {
              for (const int problems : {1, 4}) {
                HalfBlocks blocks{rows, columns, depth, down, across, stages, 1, problems};
                if (problems > 1 && down * across > 1) continue;
                if (!detail::is_possible(blocks, parts) || !detail::has_a_chance(blocks, parts)) continue;
                const int threads = problems * detail::half_threads(blocks);
                const int by_memory = Has::shared_bytes / (problems * detail::half_shared_bytes(blocks, parts) + 1024);
                const int by_registers = Has::registers / (threads * detail::half_registers(blocks, parts));
                const int residents = by_memory < by_registers ? by_memory : by_registers;
                blocks.residents = residents < 1 ? 1 : residents < 32 ? residents : 32;
                visit(blocks);
              }
            }
          }
        }
      }
    }
  }
}

template <HalfType type>
constexpr auto half_candidates() {
  constexpr std::size_t count = [] {
    std::size_t all = 0;
    for_each_half_candidate(type, [&](const HalfBlocks& /*blocks*/) { ++all; });
    return all;
  }();
  std::array<HalfBlocks, count> all{};
  std::size_t at = 0;
  for_each_half_candidate(type, [&](const HalfBlocks& blocks) { all[at++] = blocks; });
  return all;
}

}  // namespace tessera::kernels::plan
