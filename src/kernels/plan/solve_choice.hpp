// The fastest way to compute a triangular solve: measured on one GPU (bench/device_choices), by type, rows of the
// triangle and right-hand sides.
#pragma once

#include <array>

#include "core/scalar.hpp"
#include "kernels/plan/choice_table.hpp"

namespace tessera::kernels::plan {

/// A launch whose thread blocks pass on solved rows (block/trsm_chain.hpp), or leaves and products.
struct SolveChoice {
  /// Rows of the triangle per launch, with products between launches; 0: leaves.
  index_t chain_rows = 0;
  int chain_strip = 8;
};

/// Columns of the strips of right-hand sides that thread blocks may have.
inline constexpr std::array<int, 2> chain_strips = {1, 8};
/// The values that are compared.
inline constexpr std::array<index_t, 7> chosen_chain_rows = {256, 512, 1024, 2048, 4096, 8192, 16384};

/// Blocks of rows, of all strips, that one launch may have.
inline constexpr index_t most_chain_marks = 1 << 16;

constexpr bool fits_chain(index_t order, index_t columns, int strip_columns) {
  constexpr index_t rows_of_smallest_block = 16;
  const index_t strips = (columns + strip_columns - 1) / strip_columns;
  const index_t blocks = (order + rows_of_smallest_block - 1) / rows_of_smallest_block;
  return strips <= most_chain_marks && blocks <= most_chain_marks / strips;
}

namespace detail {
inline constexpr ChoiceTable<SolveChoice> solve_choices = {{
#include "kernels/plan/solve_choices.inc"
}};
}  // namespace detail

constexpr SolveChoice choose_solve(ScalarType type, index_t order, index_t columns) {
  return choose(detail::solve_choices, type, order, columns);
}

}  // namespace tessera::kernels::plan
