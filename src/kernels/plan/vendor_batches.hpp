// Which batches of products of one size cuBLAS computes sooner than the blocks of product_blocks.hpp: measured on one GPU
// with square ones (bench/batch_blocks), by type and size.
#pragma once

#include <array>
#include <cstddef>

#include "core/scalar.hpp"

namespace tessera::kernels::plan {

/// Each stands for products that take no more operations than a cube of it, and more than one of the size before; the
/// last for all larger ones, too.
inline constexpr std::array<index_t, 14> batch_sizes = {4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512};

namespace detail {
inline constexpr std::array<std::array<bool, batch_sizes.size()>, 4> vendor_batches = {{
#include "kernels/plan/vendor_batches.inc"
}};
}  // namespace detail

/// @pre m, n, k >= 1
constexpr bool vendor_is_sooner(ScalarType type, index_t m, index_t n, index_t k) {
  const double volume = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  std::size_t i = 0;
  const auto cube = [](index_t size) { return static_cast<double>(size * size * size); };
  while (i + 1 < batch_sizes.size() && cube(batch_sizes[i]) < volume) ++i;
  return detail::vendor_batches[static_cast<std::size_t>(type)][i];
}

}  // namespace tessera::kernels::plan
