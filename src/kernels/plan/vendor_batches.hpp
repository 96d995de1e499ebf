// The batches of products of one size that cuBLAS computes faster than the blocks of product_blocks.hpp and
// half_blocks.hpp. They were measured on one GPU with square matrices (bench/batch_blocks, bench/half_blocks), by type
// and size.
#pragma once

#include <array>
#include <cstddef>

#include "core/half.hpp"
#include "core/scalar.hpp"

namespace tessera::kernels::plan {

/// Each size stands for products with at most as many operations as a cube of it, and more than a cube of the size
/// before. The last stands for all larger ones, too.
inline constexpr std::array<index_t, 14> batch_sizes = {4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512};

namespace detail {
inline constexpr std::array<std::array<bool, batch_sizes.size()>, 4> vendor_batches = {{
#include "kernels/plan/vendor_batches.inc"
}};
/// For real 16-bit numbers; cuBLAS does not support complex ones.
inline constexpr std::array<std::array<bool, batch_sizes.size()>, 2> half_vendor_batches = {{
#include "kernels/plan/half_vendor_batches.inc"
}};

/// The index in batch_sizes.
constexpr std::size_t class_of_product(index_t m, index_t n, index_t k) {
  const double volume = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  std::size_t i = 0;
  const auto cube = [](index_t size) { return static_cast<double>(size * size * size); };
  while (i + 1 < batch_sizes.size() && cube(batch_sizes[i]) < volume) ++i;
  return i;
}
}  // namespace detail

/// @pre m, n, k >= 1
constexpr bool vendor_is_sooner(ScalarType type, index_t m, index_t n, index_t k) {
  return detail::vendor_batches[static_cast<std::size_t>(type)][detail::class_of_product(m, n, k)];
}
constexpr bool vendor_is_sooner(HalfType type, index_t m, index_t n, index_t k) {
  if (is_complex(type)) return false;
  return detail::half_vendor_batches[type == HalfType::h ? 0 : 1][detail::class_of_product(m, n, k)];
}

}  // namespace tessera::kernels::plan
