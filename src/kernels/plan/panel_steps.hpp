// Panels of LU and QR as steps: calls of Level 3, and other operations by a Machine (for host memory, or for a GPU).
//
// A Machine has
//   compute(const Level3&), add(const Addition&)
//   workspace(bytes)                    memory for one step, aligned; the next call may return the same memory
//   interchange(const PanelUpdate&)     interchanges rows of C by the panel's pivots
//   copy_unit_lower(const Panel&, void* V)
//                                       V, n x n, becomes the panel's first rows with ones on the diagonal, zeros above
//   prepare_t(type, n, G, tau, T, ldt)  scales row i of G above the diagonal by tau[i]; T = diag(tau); both are n x n
#pragma once

#include <algorithm>

#include "calls/level3.hpp"
#include "kernels/panel.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels::plan {

inline std::byte* element_at(void* matrix, index_t ld, ScalarType type, index_t i, index_t j) {
  return static_cast<std::byte*>(matrix) + (i + j * ld) * static_cast<index_t>(element_bytes(type));
}

inline Op adjoint_of(ScalarType type) { return is_complex(type) ? Op::conj_trans : Op::trans; }

/// Computes C = L^-1 P C, and C - L C below.
template <class Machine>
void apply_lu(Machine& machine, const PanelUpdate& update) {
  const Panel& panel = update.panel;
  machine.interchange(update);
  machine.compute(Level3{.routine = Routine::trsm,
                         .type = panel.type,
                         .diag = Diag::unit,
                         .m = panel.n,
                         .n = update.n,
                         .A = panel.A,
                         .lda = panel.lda,
                         .C = update.C,
                         .ldc = update.ldc});
  if (panel.m == panel.n) return;
  machine.compute(Level3{.type = panel.type,
                         .m = panel.m - panel.n,
                         .n = update.n,
                         .k = panel.n,
                         .alpha = -1,
                         .A = element_at(panel.A, panel.lda, panel.type, panel.n, 0),
                         .lda = panel.lda,
                         .B = update.C,
                         .ldb = update.ldc,
                         .beta = 1,
                         .C = element_at(update.C, update.ldc, panel.type, panel.n, 0),
                         .ldc = update.ldc});
}

/// Computes C -= V T^H V^H C, which is Q^H C, in three products with V: W = V^H C, W = T^H W, C -= V W.
template <class Machine>
void apply_qr(Machine& machine, const PanelUpdate& update) {
  const Panel& panel = update.panel;
  const index_t k = panel.n, below = panel.m - k;
  const Op adjoint = adjoint_of(panel.type);
  std::byte* const W = machine.workspace(static_cast<std::size_t>(2 * k * update.n) * element_bytes(panel.type));
  std::byte* const TW = element_at(W, k, panel.type, 0, update.n);
  void* const C2 = element_at(update.C, update.ldc, panel.type, k, 0);
  const void* const V2 = element_at(panel.A, panel.lda, panel.type, k, 0);
  const auto triangle = [&](Uplo uplo, Diag diag, Op op, const void* A, index_t lda, const void* from, index_t ld,
                            void* to) {
    machine.compute(Level3{.routine = Routine::trmm,
                           .type = panel.type,
                           .uplo = uplo,
                           .op_a = op,
                           .diag = diag,
                           .m = k,
                           .n = update.n,
                           .A = A,
                           .lda = lda,
                           .B = from,
                           .ldb = ld,
                           .C = to,
                           .ldc = k});
  };
  triangle(Uplo::lower, Diag::unit, adjoint, panel.A, panel.lda, update.C, update.ldc, W);
  if (below > 0) {
    machine.compute(Level3{.type = panel.type,
                           .op_a = adjoint,
                           .m = k,
                           .n = update.n,
                           .k = below,
                           .A = V2,
                           .lda = panel.lda,
                           .B = C2,
                           .ldb = update.ldc,
                           .beta = 1,
                           .C = W,
                           .ldc = k});
  }
  triangle(Uplo::upper, Diag::non_unit, adjoint, panel.tail, k, W, k, TW);
  if (below > 0) {
    machine.compute(Level3{.type = panel.type,
                           .m = below,
                           .n = update.n,
                           .k = k,
                           .alpha = -1,
                           .A = V2,
                           .lda = panel.lda,
                           .B = TW,
                           .ldb = k,
                           .beta = 1,
                           .C = C2,
                           .ldc = update.ldc});
  }
  triangle(Uplo::lower, Diag::unit, Op::no_trans, panel.A, panel.lda, TW, k, W);
  machine.add(Addition{
      .type = panel.type, .m = k, .n = update.n, .factor = -1, .X = W, .ldx = k, .C = update.C, .ldc = update.ldc});
}

template <class Machine>
void apply_panel(Machine& machine, const PanelUpdate& update) {
  update.panel.kind == PanelKind::lu ? apply_lu(machine, update) : apply_qr(machine, update);
}

/// Computes T of the factored panel from tau. T^-1 = triu(V^H V) with 1 / tau on the diagonal. The division is not
/// possible if tau == 0, so the solved equation is (I + diag(tau) striu(V^H V)) T = diag(tau).
/// @param tau of its columns
template <class Machine>
void form_t(Machine& machine, const Panel& panel, const void* tau, void* T) {
  const index_t n = panel.n, below = panel.m - n;
  const Op adjoint = adjoint_of(panel.type);
  std::byte* const V = machine.workspace(static_cast<std::size_t>(2 * n * n) * element_bytes(panel.type));
  std::byte* const G = element_at(V, n, panel.type, 0, n);
  machine.copy_unit_lower(panel, V);
  const auto product = [&](const void* X, index_t ld, index_t rows, double beta) {
    machine.compute(Level3{.type = panel.type,
                           .op_a = adjoint,
                           .m = n,
                           .n = n,
                           .k = rows,
                           .A = X,
                           .lda = ld,
                           .B = X,
                           .ldb = ld,
                           .beta = beta,
                           .C = G,
                           .ldc = n});
  };
  product(V, n, n, 0);
  if (below > 0) product(element_at(panel.A, panel.lda, panel.type, n, 0), panel.lda, below, 1);
  machine.prepare_t(panel.type, n, G, tau, T);
  machine.compute(Level3{.routine = Routine::trsm,
                         .type = panel.type,
                         .uplo = Uplo::upper,
                         .diag = Diag::unit,
                         .m = n,
                         .n = n,
                         .A = G,
                         .lda = n,
                         .C = T,
                         .ldc = n});
}

/// Factors columns [first, first + columns) of a QR panel by factor(block, tau), where they lie, and applies them to
/// the columns behind them. Until the last columns, the place of the panel's T holds the T of parts.
template <class Machine, class Factor>
void factor_qr(Machine& machine, const Panel& panel, index_t first, index_t columns, Factor factor) {
  const auto element = static_cast<index_t>(element_bytes(panel.type));
  std::byte* const tau = tau_of(panel) + first * element;
  Panel part = panel;
  part.m = panel.m - first;
  part.n = columns;
  part.A = element_at(panel.A, panel.lda, panel.type, first, first);
  factor(part, tau);
  const index_t behind = first + columns, rest = panel.n - behind;
  if (rest == 0) return form_t(machine, panel, tau_of(panel), panel.tail);
  form_t(machine, part, tau, panel.tail);
  apply_qr(machine, {part, rest, element_at(panel.A, panel.lda, panel.type, first, behind), panel.lda});
}

}  // namespace tessera::kernels::plan
