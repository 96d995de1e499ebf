// The fastest way to compute a product with a triangle: measured on one GPU (bench/device_choices), by type, rows of
// the triangle and columns of X.
#pragma once

#include "core/scalar.hpp"
#include "kernels/plan/choice_table.hpp"

namespace tessera::kernels::plan {

struct ProductChoice {
  /// If X and C are different matrices: the vendor's kernel serves up to so many rows of the triangle, and products
  /// combine them; 0: the vendor's kernel alone.
  index_t leaf_rows = 0;
  /// If in place: no copy of X is made, even if there is memory for one.
  bool without_copy = false;
};

/// The values that are compared.
inline constexpr std::array<index_t, 4> chosen_leaves = {0, 1024, 2048, 4096};

namespace detail {
inline constexpr ChoiceTable<ProductChoice> product_choices = {{
#include "kernels/plan/product_choices.inc"
}};
}  // namespace detail

constexpr ProductChoice choose_product(ScalarType type, index_t order, index_t columns) {
  return choose(detail::product_choices, type, order, columns);
}

}  // namespace tessera::kernels::plan
