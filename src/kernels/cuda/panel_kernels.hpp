// The kernels that a GPU needs for panels of LU and QR beside cuSOLVER and Level 3: row interchanges all at once, and
// the small triangles of which T is made.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/panel.hpp"

namespace tessera::kernels::cuda {

/// An LU panel as it was before cuSOLVER factored it. A panel is exceptional if cuSOLVER cannot handle it: it takes a
/// NaN for zero, and multiplies by the reciprocal of a pivot. An overflow of that reciprocal may leave its kernel
/// waiting for ever.
struct PanelCopy {
  /// In the GPU's memory, all zeros before the first panel.
  struct State {
    std::int32_t m, n;       ///< the panel's, or 0 if it is not exceptional
    std::int32_t info;       ///< any value
    std::int32_t is_unsafe;  ///< the panel has a NaN, an infinity, or a number with an outer exponent
    std::int32_t columns;    ///< QR: the columns from the first one on that has a NaN or an infinity; 0: no column has
  };
  void* A = nullptr;  ///< panel.m x panel.n, without padding
  State* state = nullptr;
};

/// Copies the panel and replaces unsafe numbers in it by zeros. @pre the stream's GPU is current, here and below
cudaError_t copy_panel(const Panel& panel, const PanelCopy& copy, cudaStream_t stream);

/// Decides whether the panel, which cuSOLVER has factored, is exceptional.
cudaError_t find_exceptional(const Panel& panel, const PanelCopy& copy, cudaStream_t stream);

/// Completes the tail of a factored LU panel: info in LAPACK's sense, and the sources of rows. An exceptional panel is
/// replaced by its copy, which has been factored, too, with the pivots that are in the tail.
cudaError_t complete_pivots(const Panel& panel, const PanelCopy& copy, cudaStream_t stream);

/// Finds the first column of a QR panel with a NaN or an infinity, before the columns are factored, and replaces these
/// by zeros.
cudaError_t find_not_finite(const Panel& columns, PanelCopy::State* state, cudaStream_t stream);

/// Fills that column, and all reflectors from there on, with NaN, as LAPACK's arithmetic would. It follows the
/// factorization by cuSOLVER, which passes over a NaN.
cudaError_t spread_not_finite(const Panel& columns, void* tau, PanelCopy::State* state, cudaStream_t stream);

/// Interchanges rows of C by the panel's pivots. @pre complete_pivots()
cudaError_t interchange_rows(const PanelUpdate& update, cudaStream_t stream);

/// Row i of G above the diagonal, times tau[i]; T = diag(tau); both are n x n.
cudaError_t prepare_t(ScalarType type, index_t n, void* G, const void* tau, void* T, cudaStream_t stream);

/// Loads the kernels for the current GPU. @return an error if there are none for it
cudaError_t load_panel_kernels();

}  // namespace tessera::kernels::cuda
