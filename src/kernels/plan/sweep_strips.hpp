// The strips for thread blocks of a batch of triangular solves and products (block/triangular_sweep.hpp), by the size
// of the triangles.
#pragma once

#include <array>
#include <cstddef>

#include "core/scalar.hpp"
#include "kernels/plan/product_blocks.hpp"

namespace tessera::kernels::plan {

/// Leaves with 16 rows per warp, and so many columns of X.
struct SweepStrips {
  int warps = 0, columns = 0;
  int residents = 1;  ///< thread blocks for which a multiprocessor must have registers
  int problems = 1;   ///< per thread block: one, or one for each of several warps

  constexpr bool operator==(const SweepStrips&) const = default;
};

namespace detail {
/// Strips for products, and for solves.
inline constexpr std::array<std::array<std::array<SweepStrips, block_sizes.size()>, 4>, 2> sweep_strips = {{
#include "kernels/plan/sweep_strips.inc"
}};
}  // namespace detail

/// The class of triangles of any size, known or not. A triangle of another class may be one leaf.
inline constexpr std::size_t any_sweep = block_sizes.size() - 1;

/// @param rows of the largest triangle; 0: not known
constexpr std::size_t class_of_sweeps(index_t rows) { return rows > 0 ? class_of_blocks(rows) : any_sweep; }

constexpr const SweepStrips& sweep_strips(bool is_solve, ScalarType type, std::size_t size_class) {
  return detail::sweep_strips[is_solve ? 1 : 0][static_cast<std::size_t>(type)][size_class];
}

}  // namespace tessera::kernels::plan
