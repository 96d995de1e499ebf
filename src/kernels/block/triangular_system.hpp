// One form for all variants of triangular solves and products: L X = alpha B, or X = alpha L B, with L lower
// triangular. Strides express the variants. A transposed triangle exchanges its two strides. An upper triangle is a
// lower one in reversed order, with negative strides. A on the right exchanges the strides of B.
#pragma once

#include "calls/level3.hpp"
#include "kernels/block/argument_positions.hpp"
#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"
#include "kernels/plan/triangular_recursion.hpp"

namespace tessera::kernels::block {

/// L X = alpha B or X = alpha L B, X in the place of B. L(i, j) is at L[i * l_row + j * l_col], and X(i, j) at
/// X[i * x_row + j * x_col]. Only L(i, j) with i > j are read, and those with i == j if not `unit`.
template <class Stored>
struct TriangularSystem {
  using E = Stored;
  const E* L;
  index_t l_row, l_col;
  E* X;
  index_t x_row, x_col;
  index_t order, columns;
  E alpha;
  bool scales;     ///< alpha is not one
  bool conjugate;  ///< L stands for its conjugate: products use conjugated elements
  bool unit;       ///< the diagonal is one
};

/// The common part of the triangular calls of one batch: everything but sizes and addresses.
template <class Stored>
struct TriangularForm {
  using E = Stored;
  bool on_left = true;
  bool is_solve = true;
  /// T in T X = alpha B, X = alpha T B (plan/triangular_recursion.hpp) is stored transposed: T(i, j) is A(j, i).
  bool transposed = false;
  bool lower = true;  ///< T is lower triangular
  bool conjugate = false;
  bool unit = false;
  E alpha{};
  bool scales = false;  ///< alpha is not one
  bool alpha_is_zero = false;
};

/// One problem of the batch, in place.
template <class Stored>
struct TriangularProblem {
  using E = Stored;
  index_t m = 0, n = 0;
  const E* A = nullptr;
  index_t lda = 0;
  E* B = nullptr;
  index_t ldb = 0;
};

/// A trsm, or a trmm in place. @pre R and parts are those of the call's type
template <class R, int parts>
TriangularForm<Element<R, parts>> triangular_form(const Level3& call) {
  const plan::TriangleForm triangle = plan::triangle_form(call);
  TriangularForm<Element<R, parts>> form;
  form.on_left = call.side == Side::left;
  form.is_solve = call.routine == Routine::trsm;
  form.transposed = triangle.transposed;
  form.lower = triangle.lower;
  form.conjugate = call.op_a == Op::conj_trans;
  form.unit = call.diag == Diag::unit;
  form.alpha = element_from<R, parts>(call.alpha);
  form.scales = call.alpha != AnyScalar(1);
  form.alpha_is_zero = call.alpha == AnyScalar(0);
  return form;
}

/// The position of the first bad argument, in the order in which the reference BLAS checks them; 0: none.
template <class E>
TESSERA_HOST_DEVICE int bad_argument(const TriangularForm<E>& form, const ArgumentPositions& position,
                                     const TriangularProblem<E>& problem) {
  if (problem.m < 0) return position.m;
  if (problem.n < 0) return position.n;
  if (is_short_run(problem.lda, form.on_left ? problem.m : problem.n)) return position.lda;
  return is_short_run(problem.ldb, problem.m) ? position.ldb : 0;
}

template <class E>
TESSERA_HOST_DEVICE index_t order_of(const TriangularForm<E>& form, const TriangularProblem<E>& problem) {
  return form.on_left ? problem.m : problem.n;
}

template <class E>
TESSERA_HOST_DEVICE TriangularSystem<E> system_of(const TriangularForm<E>& form, const TriangularProblem<E>& problem) {
  TriangularSystem<E> system;
  system.L = problem.A;
  system.l_row = form.transposed ? problem.lda : 1;
  system.l_col = form.transposed ? 1 : problem.lda;
  system.X = problem.B;
  system.x_row = form.on_left ? 1 : problem.ldb;
  system.x_col = form.on_left ? problem.ldb : 1;
  system.order = order_of(form, problem);
  system.columns = form.on_left ? problem.n : problem.m;
  if (!form.lower && system.order > 0 && system.columns > 0) {  // otherwise the matrices need not exist
    system.L += (system.order - 1) * (system.l_row + system.l_col);
    system.X += (system.order - 1) * system.x_row;
    system.l_row = -system.l_row;
    system.l_col = -system.l_col;
    system.x_row = -system.x_row;
  }
  system.alpha = form.alpha;
  system.scales = form.scales;
  system.conjugate = form.conjugate;
  system.unit = form.unit;
  return system;
}

/// The system of a single call. @pre R and parts are those of the call's type
template <class R, int parts>
TriangularSystem<Element<R, parts>> system_of(const Level3& call) {
  using E = Element<R, parts>;
  return system_of(triangular_form<R, parts>(call), TriangularProblem<E>{call.m, call.n, static_cast<const E*>(call.A),
                                                                         call.lda, static_cast<E*>(call.C), call.ldc});
}

}  // namespace tessera::kernels::block
