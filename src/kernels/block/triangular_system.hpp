// A triangular solve as L X = alpha B, or product as X = alpha L B, L lower triangular, whatever the variant: by
// strides. A transposed triangle exchanges them, an upper one is a lower one in reversed order and has negative ones,
// and A on the right exchanges those of B.
#pragma once

#include "core/level3.hpp"
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
  bool conjugate;  ///< L stands for its conjugate
  bool unit;       ///< the diagonal is one
};

/// A trsm, or a trmm in place, in that form. @pre R and parts are those of the call's type
template <class R, int parts>
TriangularSystem<Element<R, parts>> system_of(const Level3& call) {
  using E = Element<R, parts>;
  const plan::TriangleForm form = plan::triangle_form(call);
  const bool left = call.side == Side::left;
  TriangularSystem<E> system{};
  system.L = static_cast<const E*>(call.A);
  system.l_row = form.transposed ? call.lda : 1;
  system.l_col = form.transposed ? 1 : call.lda;
  system.X = static_cast<E*>(call.C);
  system.x_row = left ? 1 : call.ldc;
  system.x_col = left ? call.ldc : 1;
  system.order = plan::order_of(call);
  system.columns = plan::columns_of(call);
  if (!form.lower) {
    system.L += (system.order - 1) * (system.l_row + system.l_col);
    system.X += (system.order - 1) * system.x_row;
    system.l_row = -system.l_row;
    system.l_col = -system.l_col;
    system.x_row = -system.x_row;
  }
  system.alpha.part[0] = static_cast<R>(call.alpha.real());
  if constexpr (parts == 2) system.alpha.part[1] = static_cast<R>(call.alpha.imag());
  system.scales = call.alpha != AnyScalar(1);
  system.conjugate = call.op_a == Op::conj_trans;
  system.unit = call.diag == Diag::unit;
  return system;
}

}  // namespace tessera::kernels::block
