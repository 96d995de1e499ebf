// The division of batches of LAPACK's factorizations: which sizes are factored in registers, and which by one thread
// block in one launch. If several thread blocks work on a matrix, also the width of its panels.
#pragma once

#include <array>
#include <cstddef>

#include "core/scalar.hpp"
#include "kernels/plan/product_blocks.hpp"

namespace tessera::kernels::plan {

/// Matrices of at most `order` rows and columns, which `threads` threads factor in registers, with a row each.
struct SmallFactorization {
  int order, threads;
};
inline constexpr std::array<SmallFactorization, 7> small_factorizations = {
    {{4, 4}, {8, 8}, {16, 16}, {24, 32}, {32, 32}, {48, 64}, {64, 64}}};

/// Rows per thread in an LU factorization; the team has fewer threads accordingly. If the registers of a thread hold
/// two rows, one warp suffices where two warps would have to meet at barriers.
constexpr int rows_of_small_lu(ScalarType type, std::size_t at) {
  const int order = small_factorizations[at].order;
  return order == 48 || (order == 64 && type == ScalarType::s) ? 2 : 1;
}

/// Whether a row fits the registers of a thread.
constexpr bool is_small_factorization(ScalarType type, std::size_t at) {
  return at < small_factorizations.size() && (type != ScalarType::z || small_factorizations[at].order <= 32);
}

/// @param larger the larger of m and n; 0: not known
/// @return small_factorizations.size(): none
constexpr std::size_t class_of_small(ScalarType type, index_t larger) {
  std::size_t i = larger > 0 ? 0 : small_factorizations.size();
  while (i < small_factorizations.size() && small_factorizations[i].order < larger) ++i;
  return is_small_factorization(type, i) ? i : small_factorizations.size();
}

/// Thread blocks that factor a matrix or a panel: their rows in registers, and the blocks of C for updates of columns.
struct FactorizationSweep {
  int rows_of_thread;
  ProductBlocks blocks;
  bool any_height;  ///< else at most as many rows as the registers hold
};

/// Columns of a leaf.
constexpr int leaf_columns(ScalarType type) { return type == ScalarType::z ? 8 : 16; }

/// Solves with one right-hand side, by teams of `width` threads with `blocks` rows each.
struct VectorSolveSize {
  int width, blocks;
};
inline constexpr std::array<VectorSolveSize, 4> vector_solves = {{{8, 1}, {16, 1}, {32, 1}, {32, 2}}};
inline constexpr index_t most_rows_of_vector_solve = 64;
/// @pre 0 < rows <= most_rows_of_vector_solve
constexpr std::size_t class_of_vector_solve(index_t rows) {
  std::size_t at = 0;
  while (index_t{vector_solves[at].width} * vector_solves[at].blocks < rows) ++at;
  return at;
}
constexpr bool is_vector_solve(index_t rows, index_t right_hand_sides) {
  return rows > 0 && rows <= most_rows_of_vector_solve && right_hand_sides == 1;
}

inline constexpr std::size_t lu_sweep_count = 3;
/// Each for matrices up to its rows; the last for all.
constexpr FactorizationSweep lu_sweep(ScalarType type, std::size_t at) {
  const bool is_z = type == ScalarType::z;
  const int columns = is_z ? 32 : 64, stages = type == ScalarType::d ? 3 : 2;
  // Few columns, so that four thread blocks fit a multiprocessor: a column spends more time waiting than computing.
  if (at == 0 && !is_complex(type)) return {1, {64, 32, 2, 2, 2, 4}, false};
  if (at == 0) return {1, {64, columns, 2, 2, stages, is_z ? 2 : 3}, false};
  if (at == 1) return {1, {64, columns, 4, 2, stages, 2}, false};
  return {2, {128, columns, 8, 2, stages, 1}, true};
}
constexpr int threads_of(const FactorizationSweep& sweep) {
  return 32 * sweep.blocks.warps_down * sweep.blocks.warps_across;
}
constexpr std::size_t class_of_lu(ScalarType type, index_t rows) {
  std::size_t at = rows > 0 ? 0 : lu_sweep_count - 1;
  while (at + 1 < lu_sweep_count) {
    const FactorizationSweep sweep = lu_sweep(type, at);
    if (rows <= static_cast<index_t>(threads_of(sweep)) * sweep.rows_of_thread) break;
    ++at;
  }
  return at;
}
/// Columns of a panel: those of a leaf of solves by four warps (block/strip.hpp).
inline constexpr int lu_panel_columns = 64;
/// Panels in registers have up to so many rows, one per thread. One H200 was measured for the types with such panels,
/// and for the columns up to which a matrix is one sweep (docs/adr/0019-batches-of-lapack.md).
inline constexpr std::array<int, 2> register_panels = {128, 256};
constexpr bool is_register_panel(ScalarType type, std::size_t at) {
  return type == ScalarType::d ? at == 0 : type != ScalarType::z;
}
/// @param rows 0: not known @return register_panels.size(): none
constexpr std::size_t class_of_register_panel(ScalarType type, index_t rows) {
  std::size_t at = rows > 0 ? 0 : register_panels.size();
  while (at < register_panels.size() && register_panels[at] < rows) ++at;
  return at < register_panels.size() && is_register_panel(type, at) ? at : register_panels.size();
}
constexpr index_t most_columns_of_lu_sweep(ScalarType type) { return is_complex(type) ? 112 : 88; }

inline constexpr std::size_t cholesky_sweep_count = 2;
constexpr FactorizationSweep cholesky_sweep(ScalarType type, std::size_t at) {
  return {1, {128, leaf_columns(type), at == 0 ? 4 : 8, 1, 3, at == 0 ? 4 : 2}, true};
}
constexpr std::size_t class_of_cholesky(index_t rows) { return rows > 0 && rows <= 256 ? 0 : 1; }
/// A matrix with up to so many columns is one sweep; larger ones have panels of this width. Measured on one H200 in
/// double precision (docs/adr/0019-batches-of-lapack.md).
constexpr index_t most_columns_of_cholesky_sweep = 112;
constexpr index_t cholesky_panel_columns(index_t order) { return order <= 256 ? 64 : order < 1024 ? 128 : 256; }

/// A panel may also be a triangle in registers with strips below it (plan::small_factorizations has its class).
inline constexpr int cholesky_triangle = 64;
constexpr index_t most_order_by_triangles(ScalarType type, Uplo uplo) {
  const bool is_lower = uplo == Uplo::lower;
  if (type == ScalarType::s) return is_lower ? 512 : 1024;
  if (type == ScalarType::d) return is_lower ? 384 : 768;
  return is_lower ? 256 : 384;
}
constexpr bool has_triangles_in_registers(ScalarType type, Uplo uplo, index_t order) {
  return type != ScalarType::z && order > cholesky_triangle && order <= most_order_by_triangles(type, uplo);
}

}  // namespace tessera::kernels::plan
