// What panels of LU and QR take on a GPU beside calls of cuSOLVER and Level 3: row interchanges all at once, and the
// small triangles that T is made of.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/panel.hpp"

namespace tessera::kernels::cuda {

/// An LU panel as it was before cuSOLVER factored it. The panel is exceptional where cuSOLVER cannot have it: it takes a NaN
/// for zero, and multiplies by the reciprocal of a pivot, whose overflow may leave its kernel waiting for ever.
struct PanelCopy {
  /// In the GPU's memory, all zero before the first panel.
  struct State {
    std::int32_t m, n;       ///< those of the panel, or 0 if it is not exceptional
    std::int32_t info;       ///< anything
    std::int32_t is_unsafe;  ///< the panel has a NaN, an infinity, or a number of the outer exponents
    std::int32_t columns;    ///< QR: from the first one on that has a NaN or an infinity; 0: none has
  };
  void* A = nullptr;  ///< panel.m x panel.n, without padding
  State* state = nullptr;
};

/// Copies the panel, and looks for unsafe numbers, in whose place it leaves zeros. @pre the stream's GPU is current, here and below
cudaError_t copy_panel(const Panel& panel, const PanelCopy& copy, cudaStream_t stream);

/// Decides whether the panel, which cuSOLVER has factored, is exceptional.
cudaError_t find_exceptional(const Panel& panel, const PanelCopy& copy, cudaStream_t stream);

/// Completes the tail of a factored LU panel: info as LAPACK tells it, and where rows come from. An exceptional panel
/// becomes its copy, which has been factored, too, with the pivots that are in the tail.
cudaError_t complete_pivots(const Panel& panel, const PanelCopy& copy, cudaStream_t stream);

/// Of columns of a QR panel, before they are factored: looks for the first one with a NaN or an infinity, and leaves zeros
/// in the place of these.
cudaError_t find_not_finite(const Panel& columns, PanelCopy::State* state, cudaStream_t stream);

/// And after cuSOLVER has factored them, which passes over a NaN: what LAPACK's arithmetic would make of that column, and
/// of all reflectors from there on, is NaN.
cudaError_t spread_not_finite(const Panel& columns, void* tau, PanelCopy::State* state, cudaStream_t stream);

/// Rows of C by the panel's pivots. @pre complete_pivots()
cudaError_t interchange_rows(const PanelUpdate& update, cudaStream_t stream);

/// V, n x n, is the panel's first rows with ones on the diagonal and zeros above.
cudaError_t copy_unit_lower(const Panel& panel, void* V, cudaStream_t stream);

/// Row i of G above the diagonal, times tau[i]; T = diag(tau); both are n x n.
cudaError_t prepare_t(ScalarType type, index_t n, void* G, const void* tau, void* T, cudaStream_t stream);

/// Loads the kernels for the current GPU now, and tells if there are none for it.
cudaError_t load_panel_kernels();

}  // namespace tessera::kernels::cuda
