// Divides a gemmt, whose result is a triangle, into rectangular products and small blocks on the diagonal. It only
// computes addresses and sizes.
#pragma once

#include <complex>
#include <cstddef>

#include "kernels/reference/reference.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

/// Rows of a block on the diagonal: many enough for an efficient product, few enough that the wasted half costs little.
inline constexpr index_t gemmt_diagonal = 64;

/// Rows [row, row + rows) and columns [col, col + cols) of a gemmt as a call of its own. @pre k >= 1
inline Level3 gemmt_block(const Level3& gemmt, Routine routine, index_t row, index_t rows, index_t col, index_t cols) {
  const auto bytes = static_cast<index_t>(element_bytes(gemmt.type));
  Level3 block = gemmt;
  block.routine = routine;
  block.m = rows;
  block.n = cols;
  const index_t first_a = gemmt.op_a == Op::no_trans ? row : row * gemmt.lda;
  const index_t first_b = gemmt.op_b == Op::no_trans ? col * gemmt.ldb : col;
  block.A = static_cast<const std::byte*>(gemmt.A) + first_a * bytes;
  block.B = static_cast<const std::byte*>(gemmt.B) + first_b * bytes;
  block.C = static_cast<std::byte*>(gemmt.C) + (row + col * gemmt.ldc) * bytes;
  return block;
}

/// Calls `call(piece)` with a gemm for each rectangle, and with a gemmt of at most gemmt_diagonal rows for each block
/// on the diagonal. Together they cover the triangle once. A triangle is two triangles of half its size and a square
/// between them, so most products are large.
template <class Call>
void for_each_gemmt_piece(const Level3& gemmt, const Call& call) {
  if (gemmt.n <= gemmt_diagonal) return call(gemmt);
  const index_t blocks = (gemmt.n + gemmt_diagonal - 1) / gemmt_diagonal;
  const index_t half = blocks / 2 * gemmt_diagonal;
  const index_t rest = gemmt.n - half;
  for_each_gemmt_piece(gemmt_block(gemmt, Routine::gemmt, 0, half, 0, half), call);
  if (gemmt.uplo == Uplo::lower) {
    call(gemmt_block(gemmt, Routine::gemm, half, rest, 0, half));
  } else {
    call(gemmt_block(gemmt, Routine::gemm, 0, half, half, rest));
  }
  for_each_gemmt_piece(gemmt_block(gemmt, Routine::gemmt, half, rest, half, rest), call);
}

/// Computes the gemmt by products. A block on the diagonal is computed as a square beside C, and its triangle is added
/// to C.
/// @param multiply computes a gemm
template <class Multiply>
void compute_gemmt_by_gemm(const Level3& gemmt, const Multiply& multiply) {
  for_each_gemmt_piece(gemmt, [&](const Level3& piece) {
    if (piece.routine == Routine::gemm) return multiply(piece);
    alignas(64) std::byte square[gemmt_diagonal * gemmt_diagonal * sizeof(std::complex<double>)];
    Level3 gemm = piece;
    gemm.routine = Routine::gemm;
    gemm.m = piece.n;
    gemm.beta = 0;
    gemm.C = square;
    gemm.ldc = piece.n;
    multiply(gemm);
    if (piece.beta != AnyScalar(1)) {
      Level3 scaling = piece;
      scaling.alpha = 0;
      reference_level3(scaling);
    }
    reference_add({.type = piece.type,
                   .part = piece.uplo == Uplo::lower ? Part::lower : Part::upper,
                   .m = piece.n,
                   .n = piece.n,
                   .factor = 1,
                   .X = square,
                   .ldx = piece.n,
                   .C = piece.C,
                   .ldc = piece.ldc});
  });
}

}  // namespace tessera::kernels
