// What panels of LU and QR take on a GPU beside calls of cuSOLVER and Level 3: row interchanges all at once, and the
// small triangles that T is made of.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/panel.hpp"

namespace tessera::kernels::cuda {

/// Completes the tail of a factored LU panel: info as LAPACK tells it, and where rows come from. Pivots that no row has,
/// which a NaN may have left, become those of no interchange. @pre the stream's GPU is current, here and below
cudaError_t complete_pivots(const Panel& panel, cudaStream_t stream);

/// Rows of C by the panel's pivots. @pre complete_pivots()
cudaError_t interchange_rows(const PanelUpdate& update, cudaStream_t stream);

/// V, n x n, is the panel's first rows with ones on the diagonal and zeros above.
cudaError_t copy_unit_lower(const Panel& panel, void* V, cudaStream_t stream);

/// Row i of G above the diagonal, times tau[i]; T = diag(tau); both are n x n.
cudaError_t prepare_t(ScalarType type, index_t n, void* G, const void* tau, void* T, cudaStream_t stream);

/// Loads the kernels for the current GPU now, and tells if there are none for it.
cudaError_t load_panel_kernels();

}  // namespace tessera::kernels::cuda
