// How a product with a triangle is best computed: measured on one GPU (bench/device_bench --choose), by type, rows of
// the triangle and columns of X.
#pragma once

#include <array>
#include <cstddef>

#include "core/scalar.hpp"

namespace tessera::kernels::plan {

struct ProductChoice {
  /// From one matrix to another: the vendor's kernel up to so many rows of the triangle, products between; 0: the vendor's alone.
  index_t leaf_rows = 0;
  /// In place: without a copy of X, even if there is memory for one.
  bool without_copy = false;
};

/// Each size stands for those up to it that are larger than the one before; the last for all larger ones, too.
inline constexpr std::array<index_t, 7> chosen_orders = {256, 512, 1024, 2048, 4096, 8192, 16384};
inline constexpr std::array<index_t, 6> chosen_columns = {1, 32, 128, 512, 2048, 8192};
/// What is compared.
inline constexpr std::array<index_t, 4> chosen_leaves = {0, 1024, 2048, 4096};

namespace detail {
using ChoicesOfType = std::array<std::array<ProductChoice, chosen_columns.size()>, chosen_orders.size()>;
inline constexpr std::array<ChoicesOfType, 4> product_choices = {{
#include "kernels/plan/triangular_choices.inc"
}};

template <std::size_t n>
constexpr std::size_t class_of(const std::array<index_t, n>& sizes, index_t size) {
  std::size_t i = 0;
  while (i + 1 < sizes.size() && sizes[i] < size) ++i;
  return i;
}
}  // namespace detail

constexpr ProductChoice choose_product(ScalarType type, index_t order, index_t columns) {
  return detail::product_choices[static_cast<std::size_t>(type)][detail::class_of(chosen_orders, order)]
                                [detail::class_of(chosen_columns, columns)];
}

}  // namespace tessera::kernels::plan
