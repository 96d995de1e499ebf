// How a product with a triangle is best computed: measured on one GPU (bench/device_choices), by type, rows of the
// triangle and columns of X.
#pragma once

#include "core/scalar.hpp"
#include "kernels/plan/choice_table.hpp"

namespace tessera::kernels::plan {

struct ProductChoice {
  /// From one matrix to another: the vendor's kernel up to so many rows of the triangle, products between; 0: the
  /// vendor's alone.
  index_t leaf_rows = 0;
  /// In place: without a copy of X, even if there is memory for one.
  bool without_copy = false;
};

/// What is compared.
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
