// Panels of LU, QR and LQ as steps: calls of Level 3, and other operations by a Machine (for host memory, or for a GPU).
//
// A Machine has
//   compute(const Level3&), add(const Addition&)
//   workspace(bytes)                    memory for one step, aligned; the next call may return the same memory
//   interchange(const PanelUpdate&)     interchanges rows of C by the panel's pivots
//   copy_unit_triangle(const Panel&, void* V)
//                                       V, n x n, becomes the panel's first rows with ones on the diagonal, zeros above;
//                                       of LQ its first columns with ones on the diagonal, zeros below
//   prepare_t(type, n, G, tau, T, ldt)  scales row i of G above the diagonal by tau[i]; T = diag(tau); both are n x n
#pragma once

#include <algorithm>
#include <utility>

#include "calls/level3.hpp"
#include "kernels/panel.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels::plan {

inline std::byte* element_at(void* matrix, index_t ld, ScalarType type, index_t i, index_t j) {
  return static_cast<std::byte*>(matrix) + (i + j * ld) * static_cast<index_t>(element_bytes(type));
}

/// Element (i, j) of a panel or of a matrix beside it. LQ stores the adjoint.
inline std::byte* element_of(const Panel& panel, void* matrix, index_t ld, index_t i, index_t j) {
  return is_in_rows(panel.kind) ? element_at(matrix, ld, panel.type, j, i) : element_at(matrix, ld, panel.type, i, j);
}

inline Op adjoint_of(ScalarType type) { return is_complex(type) ? Op::conj_trans : Op::trans; }

/// The product of the adjoints, whose result is the adjoint. @pre gemm, or trmm from the left; real factors
inline Level3 adjoint_of(Level3 call) {
  std::swap(call.m, call.n);
  if (call.routine == Routine::gemm) {
    std::swap(call.A, call.B);
    std::swap(call.lda, call.ldb);
    std::swap(call.op_a, call.op_b);
  } else {
    call.side = Side::right;
    call.uplo = call.uplo == Uplo::lower ? Uplo::upper : Uplo::lower;
  }
  return call;
}

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

/// Computes C -= V T^H V^H C, which is Q^H C, in three products with V: W = V^H C, W = T^H W, C -= V W. Of LQ all
/// matrices but T are the adjoints of these.
template <class Machine>
void apply_qr(Machine& machine, const PanelUpdate& update) {
  const Panel& panel = update.panel;
  const bool by_rows = is_in_rows(panel.kind);
  const index_t k = panel.n, below = panel.m - k, ldw = by_rows ? update.n : k;
  const Op adjoint = adjoint_of(panel.type);
  const auto compute = [&](const Level3& call) { machine.compute(by_rows ? adjoint_of(call) : call); };
  std::byte* const W = machine.workspace(static_cast<std::size_t>(2 * k * update.n) * element_bytes(panel.type));
  std::byte* const TW = element_at(W, k, panel.type, 0, update.n);
  void* const C2 = element_of(panel, update.C, update.ldc, k, 0);
  const void* const V2 = element_of(panel, panel.A, panel.lda, k, 0);
  const auto triangle = [&](Uplo uplo, Diag diag, Op op, const void* A, index_t lda, const void* from, index_t ld,
                            void* to) {
    compute(Level3{.routine = Routine::trmm,
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
                   .ldc = ldw});
  };
  const auto add_product = [&](double alpha, Op op, const void* from, index_t ld, void* to, index_t ld_to) {
    if (below == 0) return;
    compute(Level3{.type = panel.type,
                   .op_a = op,
                   .m = op == Op::no_trans ? below : k,
                   .n = update.n,
                   .k = op == Op::no_trans ? k : below,
                   .alpha = alpha,
                   .A = V2,
                   .lda = panel.lda,
                   .B = from,
                   .ldb = ld,
                   .beta = 1,
                   .C = to,
                   .ldc = ld_to});
  };
  triangle(Uplo::lower, Diag::unit, adjoint, panel.A, panel.lda, update.C, update.ldc, W);
  add_product(1, adjoint, C2, update.ldc, W, ldw);
  // T stands for the adjoint of its adjoint.
  triangle(by_rows ? Uplo::lower : Uplo::upper, Diag::non_unit, by_rows ? Op::no_trans : adjoint, panel.tail, k, W, ldw,
           TW);
  add_product(-1, Op::no_trans, TW, ldw, C2, update.ldc);
  triangle(Uplo::lower, Diag::unit, Op::no_trans, panel.A, panel.lda, TW, ldw, W);
  machine.add(Addition{.type = panel.type,
                       .m = by_rows ? update.n : k,
                       .n = by_rows ? k : update.n,
                       .factor = -1,
                       .X = W,
                       .ldx = ldw,
                       .C = update.C,
                       .ldc = update.ldc});
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
  const bool by_rows = is_in_rows(panel.kind);
  const Op adjoint = adjoint_of(panel.type);
  std::byte* const V = machine.workspace(static_cast<std::size_t>(2 * n * n) * element_bytes(panel.type));
  std::byte* const G = element_at(V, n, panel.type, 0, n);
  machine.copy_unit_triangle(panel, V);
  const auto product = [&](const void* X, index_t ld, index_t rows, double beta) {
    machine.compute(Level3{.type = panel.type,
                           .op_a = by_rows ? Op::no_trans : adjoint,
                           .op_b = by_rows ? adjoint : Op::no_trans,
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
  if (below > 0) product(element_of(panel, panel.A, panel.lda, n, 0), panel.lda, below, 1);
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
/// the columns behind them. Until the last columns, the place of the panel's T holds the T of parts. Of an LQ panel
/// these are rows.
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
  apply_qr(machine, {part, rest, element_of(panel, panel.A, panel.lda, first, behind), panel.lda});
}

/// Factors a matrix of n columns, QR or LQ, panel by panel in its place. One tail serves all panels in turn.
/// @param first the first panel at its full width, m rows of the matrix high
/// @param factor (panel, its first column): factors the panel, and keeps what is wanted of its tail
/// @param apply (PanelUpdate): the columns behind a panel
template <class Factor, class Apply>
void factor_qr_matrix(const Panel& first, index_t n, Factor factor, Apply apply) {
  const index_t least = std::min(first.m, n);
  for (index_t at = 0; at < least; at += first.n) {
    Panel panel = first;
    panel.m = first.m - at;
    panel.n = std::min(first.n, least - at);
    panel.A = element_at(first.A, first.lda, first.type, at, at);
    factor(panel, at);
    if (const index_t behind = at + panel.n; behind < n)
      apply(PanelUpdate{panel, n - behind, element_of(first, first.A, first.lda, at, behind), first.lda});
  }
}

}  // namespace tessera::kernels::plan
