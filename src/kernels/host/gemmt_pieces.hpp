// Cuts a gemmt, whose result is a triangle, into rectangular products and small blocks on the diagonal. Pure arithmetic
// on addresses.
#pragma once

#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

/// Rows of a block on the diagonal: large enough for a product, small enough that the half computed in vain costs
/// little.
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

/// Calls `call(piece)` for a gemm of each rectangle and a gemmt of at most gemmt_diagonal rows of each block on the
/// diagonal, which together cover the triangle once. A triangle is two of half its size and a square between them, so
/// most products are large.
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

}  // namespace tessera::kernels
