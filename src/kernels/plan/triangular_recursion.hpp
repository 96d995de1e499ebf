// Splits a triangular solve or product into leaves, of at most `leaf_rows` rows of the triangle, and matrix products
// between them. Halving makes the products as square as possible, and gives most of the arithmetic to the largest
// (KBLAS, section 3.1). Nothing is copied, and only the stored triangle is accessed. Error bounds are those of
// substitution, and of the product, in another order (Higham, Accuracy and Stability of Numerical Algorithms, section
// 8.1 and 13.2).
//
// Parts are coordinates. Every triangle is cut from its top at multiples of the leaf, so that all parts begin where
// loads are aligned.
#pragma once

#include <cstddef>

#include "calls/level3.hpp"

namespace tessera::kernels::plan {

/// The triangle in the form T X = alpha B (trsm), X = alpha T B (trmm). T is op_a(A) on the left, and its transpose if
/// A is on the right, since X op_a(A) = alpha B is op_a(A)^T X^T = alpha B^T.
struct TriangleForm {
  bool transposed;  ///< T(i, j) is stored as A(j, i)
  bool lower;       ///< T is lower triangular: its first row is solved first and multiplied last; otherwise the reverse
};
constexpr TriangleForm triangle_form(const Level3& call) {
  const bool transposed = (call.op_a != Op::no_trans) != (call.side == Side::right);
  return {transposed, (call.uplo == Uplo::lower) != transposed};
}

/// Rows of the triangle, and columns of X in that form.
constexpr index_t order_of(const Level3& call) { return call.side == Side::left ? call.m : call.n; }
constexpr index_t columns_of(const Level3& call) { return call.side == Side::left ? call.n : call.m; }

/// A part of a call, for a triangle with any number of rows.
struct TriangularPart {
  bool is_leaf = true;
  index_t row = 0, rows = 0;       ///< of X: the rows that the part changes
  index_t from_row = 0, from = 0;  ///< of X: the rows that the part reads; in a leaf the same rows
  bool takes_alpha = true;         ///< alpha has not yet been applied to these rows of X (trsm)
};

/// Calls visit(part) in the order in which the parts must be computed.
/// @param lower triangle_form() of the call
/// @param takes_alpha whether alpha still has to be applied
/// @pre order >= 1
template <class Visit>
void for_each_part(Routine routine, bool lower, index_t order, index_t leaf_rows, Visit&& visit, index_t row = 0,
                   bool takes_alpha = true) {
  if (order <= leaf_rows) {
    visit(TriangularPart{true, row, order, row, order, takes_alpha});
    return;
  }
  const index_t leaves = (order + leaf_rows - 1) / leaf_rows;
  const index_t top_rows = leaves / 2 * leaf_rows;
  struct Half {
    index_t row, rows;
  };
  const Half top{row, top_rows}, bottom{row + top_rows, order - top_rows};
  // The half that does not depend on the other one, and the half that depends on it.
  const Half free = lower ? top : bottom, bound = lower ? bottom : top;
  const auto cut = [&](const Half& half, bool alpha) {
    for_each_part(routine, lower, half.rows, leaf_rows, visit, half.row, alpha);
  };
  const TriangularPart product{false, bound.row, bound.rows, free.row, free.rows, takes_alpha};
  if (routine == Routine::trsm) {
    cut(free, takes_alpha);
    visit(product);
    cut(bound, false);
  } else {
    cut(bound, takes_alpha);
    visit(product);
    cut(free, takes_alpha);
  }
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

/// A part of a trsm or trmm as a call on the blocks of its matrices: the routine itself for a leaf, else gemm. trmm
/// reads X in B, which may be C, and writes it to C.
inline Level3 call_of(const Level3& call, const TriangularPart& part) {
  const bool left = call.side == Side::left;
  const auto block_of_x = [&](index_t row) {
    return detail::block_of(call.C, call.type, call.ldc, left ? row : 0, left ? 0 : row);
  };
  const bool is_product = call.routine == Routine::trmm;
  const index_t ld_read = is_product ? call.ldb : call.ldc;
  const auto read_x = [&](index_t row) {
    return detail::block_of(is_product ? call.B : call.C, call.type, ld_read, left ? row : 0, left ? 0 : row);
  };
  if (part.is_leaf) {
    Level3 leaf = call;
    leaf.A = detail::block_of(call.A, call.type, call.lda, part.row, part.row);
    leaf.C = block_of_x(part.row);
    if (call.routine == Routine::trmm) leaf.B = read_x(part.row);
    (left ? leaf.m : leaf.n) = part.rows;
    if (!part.takes_alpha) leaf.alpha = 1;
    return leaf;
  }
  const void* const T = triangle_form(call).transposed
                            ? detail::block_of(call.A, call.type, call.lda, part.from_row, part.row)
                            : detail::block_of(call.A, call.type, call.lda, part.row, part.from_row);
  const void* const X = read_x(part.from_row);
  // Left: C = beta C + alpha T X. Right: C = beta C + alpha X T^T, where T^T is op_a of the same block of A.
  Level3 product{.routine = Routine::gemm,
                 .type = call.type,
                 .op_a = left ? call.op_a : Op::no_trans,
                 .op_b = left ? Op::no_trans : call.op_a,
                 .m = left ? part.rows : call.m,
                 .n = left ? call.n : part.rows,
                 .k = part.from,
                 .alpha = call.alpha,
                 .A = left ? T : X,
                 .lda = left ? call.lda : ld_read,
                 .B = left ? X : T,
                 .ldb = left ? ld_read : call.lda,
                 .beta = 1,
                 .C = block_of_x(part.row),
                 .ldc = call.ldc};
  if (call.routine == Routine::trsm) {
    product.alpha = -1;
    if (part.takes_alpha) product.beta = call.alpha;
  }
  return product;
}

/// Calls run(part) for the parts of a trsm or trmm in the order in which they must be computed.
template <class Run>
void run_in_parts(const Level3& call, index_t leaf_rows, Run&& run) {
  for_each_part(call.routine, triangle_form(call).lower, order_of(call), leaf_rows,
                [&](const TriangularPart& part) { run(call_of(call, part)); });
}

}  // namespace tessera::kernels::plan
