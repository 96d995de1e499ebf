// From which blocks of batches of products those of product_blocks.inc are chosen (bench/batch_blocks.cpp): all that
// there could be, pruned by what a multiprocessor has (hard) and by what has no chance (soft). Source: Abdelfattah,
// Haidar, Tomov, Dongarra, "Novel HPC techniques to batch execution of many variable size BLAS computations on GPUs",
// section 5.3.
#pragma once

#include <array>
#include <cstddef>

#include "core/scalar.hpp"
#include "kernels/plan/product_blocks.hpp"
#include "kernels/plan/sweep_strips.hpp"

namespace tessera::kernels::plan {

namespace detail {

struct Multiprocessor {
  static constexpr int registers = 65536, registers_of_thread = 255, shared_bytes = 227 << 10;
};

template <class Place>
constexpr int bytes_in(const ProductBlocks& b) {
  return b.stages * (Place::elements(b.rows) + Place::elements(b.columns)) * Place::element_bytes;
}
constexpr int shared_bytes(const ProductBlocks& b, ScalarType type) {
  const int stages = type == ScalarType::s   ? bytes_in<StagePlace<4, 1>>(b)
                     : type == ScalarType::d ? bytes_in<StagePlace<8, 1>>(b)
                     : type == ScalarType::c ? bytes_in<StagePlace<4, 2>>(b)
                                             : bytes_in<StagePlace<8, 2>>(b);
  return stages + 512;  // and what the block computes
}

/// Sums, what is multiplied at a time, and addresses.
constexpr int registers(const ProductBlocks& b, ScalarType type) {
  const int words = static_cast<int>(element_bytes(type)) / 4;
  const int rows = b.rows / b.warps_down, columns = b.columns / b.warps_across;
  const bool by_tensor_cores = type == ScalarType::d || type == ScalarType::z;
  const int sums = rows * columns / 32 * words;
  const int multiplied = by_tensor_cores ? (columns / 8 * 4 + 8) * words : (rows / 8 + columns / 4) * words;
  return sums + multiplied + 48;
}

constexpr bool is_possible(const ProductBlocks& b, ScalarType type) {
  if (b.rows % (16 * b.warps_down) != 0 || b.columns % (8 * b.warps_across) != 0) return false;
  return registers(b, type) <= Multiprocessor::registers_of_thread &&
         shared_bytes(b, type) <= Multiprocessor::shared_bytes;
}

/// Thread blocks of a multiprocessor. The reservation of each, 1 KiB, counts, and warps have their registers by fours.
constexpr int residents(const ProductBlocks& b, ScalarType type, int registers_of_thread) {
  constexpr int most = 32;
  const int by_memory = Multiprocessor::shared_bytes / (b.problems * shared_bytes(b, type) + 1024);
  const int warps = Multiprocessor::registers / (32 * registers_of_thread) / 4 * 4;
  const int by_registers = warps / (b.problems * b.warps_down * b.warps_across);
  const int least = by_memory < by_registers ? by_memory : by_registers;
  return least < most ? least : most;
}

constexpr bool has_a_chance(const ProductBlocks& b, ScalarType type) {
  const int warps = b.warps_down * b.warps_across, elements = b.rows * b.columns;
  const int rows = b.rows / b.warps_down, columns = b.columns / b.warps_across;
  // Long blocks load more for each product, and those of a batch are too small for the largest.
  if (b.rows > 2 * b.columns || b.columns > 2 * b.rows || rows > 2 * columns || columns > 2 * rows) return false;
  if (elements > (type == ScalarType::s ? 8192 : 4096) || (elements < 1024 && b.rows != b.columns)) return false;
  // Warps with few elements spend their time on addresses; large blocks by one warp have too few copies on their way.
  const int least_of_warp = elements >= 4096 ? 512 : elements > 256 ? 256 : 128;
  if (rows * columns < least_of_warp || (elements > 1024 && warps < 4)) return false;
  return elements >= 1024 || b.stages == 2;
}

template <class Visit>
constexpr void for_each_resident(ProductBlocks blocks, ScalarType type, Visit&& visit) {
  blocks.residents = residents(blocks, type, registers(blocks, type));
  if (blocks.residents < 1) return;
  visit(blocks);
  // More of the small ones may pay for spilled registers.
  const int fewer_registers = registers(blocks, type) * 2 / 3;
  const int more = residents(blocks, type, fewer_registers < 64 ? 64 : fewer_registers);
  if (blocks.rows * blocks.columns > 1024 || more == blocks.residents) return;
  blocks.residents = more;
  visit(blocks);
}

}  // namespace detail

/// Calls visit(blocks) for each of them.
template <class Visit>
constexpr void for_each_candidate(ScalarType type, Visit&& visit) {
  for (const int rows : {16, 32, 64, 128}) {
    for (const int columns : {16, 32, 64, 128}) {
      for (const int down : {1, 2, 4}) {
        for (const int across : {1, 2, 4}) {
          for (const int stages : {2, 3}) {
            ProductBlocks blocks{rows, columns, down, across, stages};
            if (!detail::is_possible(blocks, type) || !detail::has_a_chance(blocks, type)) continue;
            for (const int problems : {1, 2, 4, 8}) {
              if (problems > 1 && down * across > 1) continue;
              blocks.problems = problems;
              detail::for_each_resident(blocks, type, visit);
            }
          }
        }
      }
    }
  }
}

constexpr std::size_t count_candidates(ScalarType type) {
  std::size_t count = 0;
  for_each_candidate(type, [&](const ProductBlocks& /*blocks*/) { ++count; });
  return count;
}

template <ScalarType type>
constexpr std::array<ProductBlocks, count_candidates(type)> block_candidates() {
  std::array<ProductBlocks, count_candidates(type)> all{};
  std::size_t count = 0;
  for_each_candidate(type, [&](const ProductBlocks& blocks) { all[count++] = blocks; });
  return all;
}

/// Calls visit(strips) for each candidate of sweep_strips.inc, for triangles up to `size`: leaves as large as these, or
/// half of it, or the largest ones; as many warps on a multiprocessor as have registers for a little, or for much.
template <class Visit>
constexpr void for_each_strip_candidate(ScalarType type, index_t size, Visit&& visit) {
  for (const int warps : {1, 2, 4}) {
    const index_t rows = 16 * warps;
    if (rows > size || (rows < 64 && 2 * rows < size)) continue;
    for (const int columns : {8, 16, 32}) {
      if (is_complex(type) ? columns > 16 : columns < 16) continue;
      for (const int all_warps : {8, 12, 16}) {
        const int problems = warps == 1 ? 4 : 1;
        if (all_warps % (warps * problems) == 0)
          visit(SweepStrips{warps, columns, all_warps / (warps * problems), problems});
      }
    }
  }
}

template <ScalarType type, index_t size>
constexpr auto strip_candidates() {
  constexpr std::size_t count = [] {
    std::size_t all = 0;
    for_each_strip_candidate(type, size, [&](const SweepStrips& /*strips*/) { ++all; });
    return all;
  }();
  std::array<SweepStrips, count> all{};
  std::size_t at = 0;
  for_each_strip_candidate(type, size, [&](const SweepStrips& strips) { all[at++] = strips; });
  return all;
}

}  // namespace tessera::kernels::plan
