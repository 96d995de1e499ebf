// Splits a triangular solve into solves of at most `leaf_rows` rows of the triangle and matrix products between them: solve with
// the first half of the triangle, update the other right-hand sides, solve with the second half. Halving makes the
// products as square as they can be, and most of the arithmetic goes to the largest. Blocks are split where they lie:
// nothing is copied, and only the stored triangle is named. Error bounds are those of substitution in another order
// (Higham, Accuracy and Stability of Numerical Algorithms, section 8.1 and 13.2).
//
// Plain C++, so that it is tested without a GPU.
#pragma once

#include <cstddef>

#include "core/level3.hpp"

namespace tessera::kernels::cuda {

/// The triangle in the form T X = alpha B: T is op_a(A) on the left, and its transpose where A is on the right, since
/// X op_a(A) = alpha B is op_a(A)^T X^T = alpha B^T.
struct TriangleForm {
  bool transposed;  ///< T(i, j) is stored as A(j, i)
  bool lower;       ///< T is lower triangular: the first row is solved first, else the last one
};
constexpr TriangleForm triangle_form(const Level3& call) {
  const bool transposed = (call.op_a != Op::no_trans) != (call.side == Side::right);
  return {transposed, (call.uplo == Uplo::lower) != transposed};
}

namespace detail {
/// The stored block of a matrix that begins at (row, col).
inline const void* block_of(const void* matrix, ScalarType type, index_t ld, index_t row, index_t col) {
  return static_cast<const std::byte*>(matrix) + (row + col * ld) * static_cast<index_t>(element_bytes(type));
}
inline void* block_of(void* matrix, ScalarType type, index_t ld, index_t row, index_t col) {
  return static_cast<std::byte*>(matrix) + (row + col * ld) * static_cast<index_t>(element_bytes(type));
}
}  // namespace detail

/// Calls run(part) for the parts in the order in which they must be computed: trsm calls on at most leaf_rows rows of
/// the triangle, and gemm calls. alpha enters every element once: with the first product that touches it, or in its leaf.
template <class Run>
void run_in_parts(const Level3& call, index_t leaf_rows, Run&& run) {
  const bool left = call.side == Side::left;
  const index_t order = left ? call.m : call.n;
  if (order <= leaf_rows) {
    run(call);
    return;
  }

  const TriangleForm form = triangle_form(call);
  const index_t leaves = (order + leaf_rows - 1) / leaf_rows;
  const index_t first_rows = leaves / 2 * leaf_rows;
  const index_t second_rows = order - first_rows;
  const index_t first_at = form.lower ? 0 : second_rows;
  const index_t second_at = form.lower ? first_rows : 0;
  const auto diagonal = [&](index_t at, index_t rows, AnyScalar alpha) {
    Level3 part = call;
    part.A = detail::block_of(call.A, call.type, call.lda, at, at);
    part.C = detail::block_of(call.C, call.type, call.ldc, left ? at : 0, left ? 0 : at);
    (left ? part.m : part.n) = rows;
    part.alpha = alpha;
    return part;
  };
  const Level3 first = diagonal(first_at, first_rows, call.alpha);
  const Level3 second = diagonal(second_at, second_rows, 1);
  const void* const between = form.transposed ? detail::block_of(call.A, call.type, call.lda, first_at, second_at)
                                              : detail::block_of(call.A, call.type, call.lda, second_at, first_at);
  // Left: C2 = alpha C2 - T21 C1. Right: C2 = alpha C2 - C1 T21^T, where T21^T is op_a of the same block of A.
  Level3 update{.routine = Routine::gemm,
                .type = call.type,
                .m = second.m,
                .n = second.n,
                .k = first_rows,
                .alpha = -1,
                .beta = call.alpha,
                .C = second.C,
                .ldc = call.ldc};
  update.op_a = left ? call.op_a : Op::no_trans;
  update.A = left ? between : first.C;
  update.lda = left ? call.lda : call.ldc;
  update.op_b = left ? Op::no_trans : call.op_a;
  update.B = left ? first.C : between;
  update.ldb = left ? call.ldc : call.lda;
  run_in_parts(first, leaf_rows, run);
  run(update);
  run_in_parts(second, leaf_rows, run);
}

}  // namespace tessera::kernels::cuda
