// Block columns of LU and QR factorizations and block rows of LQ, as a device holds them. The panel is the part of a
// block column on and below the diagonal. It is factored in place. Its tail, in separate memory, holds the rest of the
// results that readers need.
//   LU: P A = L U with partial pivoting. The tail holds the interchanges (PivotTail).
//   QR: A = Q R, Q = I - V T V^H. R lies on and above the diagonal, V below it; the ones on V's diagonal are not
//   stored. The
//       tail holds T, n x n, upper triangular, and behind it tau, the n coefficients of LAPACK's geqrf.
//   LQ: QR of the adjoint. The panel is a part of a block row, and all matrices but T are stored as the adjoints of
//   QR's:
//       L = R^H lies on and left of the diagonal, V^H right of it. The coefficients are those of LAPACK's gelqf.
// Sources: LAPACK Users' Guide, sections 2.4.1 and 5; Joffrain, Low, Quintana-Orti, van de Geijn, Van Zee, Accumulating
// Householder transformations, revisited, 2006, for T.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/scalar.hpp"

namespace tessera::kernels {

enum class PanelKind : std::uint8_t { lu, qr, lq };

constexpr const char* name_of(PanelKind kind) {
  constexpr const char* names[] = {"getrf", "geqrf", "gelqf"};
  return names[static_cast<int>(kind)];
}
constexpr bool is_in_rows(PanelKind kind) { return kind == PanelKind::lq; }

/// Columns of a panel. A GPU's thread block has room for that many threads.
inline constexpr index_t most_panel_columns = 1024;

/// Columns of a QR panel, or rows of an LQ panel, that are factored at once, before they are applied to the rest of the
/// panel. A team of a GPU's thread blocks holds as many in shared memory, and products wait for no longer launch.
inline constexpr index_t columns_of_part = 64;

struct Panel {
  PanelKind kind = PanelKind::lu;
  ScalarType type = ScalarType::d;
  index_t m = 0, n = 0;  ///< m >= n >= 1, n <= most_panel_columns; LQ's A has n rows and m columns
  void* A = nullptr;
  index_t lda = 0;
  void* tail = nullptr;  ///< tail_bytes(), aligned to an element
};

/// A matrix beside a panel, from the panel's first row on. LU: C = L^-1 P C in the panel's first n rows, and C - L C
/// below. QR: C = Q^H C. LQ: C = C Q of the adjoint.
struct PanelUpdate {
  Panel panel;  ///< factored
  index_t n = 0;
  void* C = nullptr;  ///< panel.m x n; LQ's has n rows and panel.m columns
  index_t ldc = 0;
};

/// The tail of an LU panel, as pointers.
struct PivotTail {
  std::int32_t* info = nullptr;  ///< 0, or the first column, from 1, whose pivot is zero
  /// n: row i was interchanged with row pivots[i]; both count from 1 at the panel's first row
  std::int32_t* pivots = nullptr;
  /// 2 n, for devices, from 0: the rows that move to row i, then the rows that move to row pivots[i]
  std::int32_t* sources = nullptr;
};
inline PivotTail pivot_tail(const Panel& panel) {
  auto* const first = static_cast<std::int32_t*>(panel.tail);
  constexpr index_t info_words = 4;  // keeps the following memory aligned
  return {first, first + info_words, first + info_words + panel.n};
}
/// The address of tau, behind T.
inline std::byte* tau_of(const Panel& panel) {
  return static_cast<std::byte*>(panel.tail) + panel.n * panel.n * static_cast<index_t>(element_bytes(panel.type));
}

constexpr index_t tail_bytes(PanelKind kind, ScalarType type, index_t n) {
  constexpr index_t info_words = 4, word = sizeof(std::int32_t);
  return kind == PanelKind::lu ? (info_words + 3 * n) * word : (n + 1) * n * static_cast<index_t>(element_bytes(type));
}

/// The conventional number of operations (LAPACK Working Note 41, leading terms; complex ones count four times).
/// @param columns of the panel, all or some, that are factored and applied to the rest of it
constexpr double flops_of(const Panel& panel, index_t columns) {
  const auto m = static_cast<double>(panel.m), n = static_cast<double>(panel.n);
  const double real = (panel.kind == PanelKind::lu ? 1 : 2) * (m * n * n - n * n * n / 3);
  return (is_complex(panel.type) ? 4 : 1) * real * static_cast<double>(columns) / n;
}
constexpr double flops_of(const PanelUpdate& update) {
  const auto m = static_cast<double>(update.panel.m), k = static_cast<double>(update.panel.n);
  const double real =
      (update.panel.kind == PanelKind::lu ? 1 : 2) * (2 * m * k - k * k) * static_cast<double>(update.n);
  return (is_complex(update.panel.type) ? 4 : 1) * real;
}

}  // namespace tessera::kernels
