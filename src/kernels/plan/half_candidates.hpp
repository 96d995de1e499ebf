// From which blocks those of half_blocks.inc are chosen (bench/half_blocks.cpp): all that there could be, pruned by what a
// thread has (hard) and by what has no chance (soft). Source: Abdelfattah, Tomov, Dongarra, "Matrix multiplication
// on batches of small matrices in half and half-complex precisions", section 5.8.
#pragma once

#include <array>
#include <cstddef>

#include "core/half.hpp"
#include "kernels/plan/half_blocks.hpp"

namespace tessera::kernels::plan {

namespace detail {

struct HalfMultiprocessor {
  static constexpr int registers = 65536, registers_of_thread = 255, most_residents = 32;
};

constexpr int half_threads(const HalfBlocks& b) { return 32 * b.warps_down * b.warps_across * b.problems; }

/// Sums, what has been loaded of the operands and of C, and addresses.
constexpr int half_registers(const HalfBlocks& b, int parts) {
  const int rows = b.rows / b.warps_down, columns = b.columns / b.warps_across;
  const int sums = rows * columns / 32 * parts, loaded = (rows + columns) * b.depth / 64 * parts;
  return sums + loaded + (b.c_ahead ? sums / 2 : 0) + 56;
}

constexpr bool is_possible(const HalfBlocks& b, int parts) {
  if (b.rows % (16 * b.warps_down) != 0 || b.columns % (16 * b.warps_across) != 0) return false;
  return half_registers(b, parts) <= HalfMultiprocessor::registers_of_thread;
}

constexpr bool has_a_chance(const HalfBlocks& b, int parts) {
  // Real products are quicker one group of steps behind the other (HalfBlock::add_by_groups).
  if (parts == 1 && b.depth != 16) return false;
  const int rows = b.rows / b.warps_down, columns = b.columns / b.warps_across, warps = b.warps_down * b.warps_across;
  // Long rectangles load more for each product.
  if (b.rows > 2 * b.columns || b.columns > b.rows || rows > 2 * columns || columns > 2 * rows) return false;
  // Warps with few sums spend their time on loads, and thread blocks of one warp are too few on a multiprocessor.
  const int elements = rows * columns;
  if (elements < (b.rows <= 32 ? 256 : 1024) || (warps == 1) != (b.problems > 1)) return false;
  // Nothing is shared by warps but the cache: eight of them are as good as more.
  return warps <= 8;
}

}  // namespace detail

/// Calls visit(blocks) for each of them.
template <class Visit>
constexpr void for_each_half_candidate(HalfType type, Visit&& visit) {
  using Has = detail::HalfMultiprocessor;
  const int parts = is_complex(type) ? 2 : 1;
  for (const int rows : {16, 32, 64, 128}) {
    for (const int columns : {16, 32, 64, 128}) {
      for (const int depth : {16, 32, 48}) {
        for (const int down : {1, 2, 4}) {
          for (const int across : {1, 2, 4}) {
            for (const bool c_ahead : {false, true}) {
              for (const int problems : {1, 4}) {
                HalfBlocks blocks{rows, columns, depth, down, across, c_ahead, 1, problems};
                if (!detail::is_possible(blocks, parts) || !detail::has_a_chance(blocks, parts)) continue;
                // As many as there are registers for, and one more.
                const int threads = detail::half_threads(blocks);
                const int needed = detail::half_registers(blocks, parts), fit = Has::registers / (threads * needed);
                for (const int residents : {fit, fit + 1}) {
                  if (residents < 1 || residents > Has::most_residents) continue;
                  if (4 * Has::registers / (threads * residents) < 3 * needed) continue;
                  blocks.residents = residents;
                  visit(blocks);
                }
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
