// Batches of LU factorizations on one GPU, as launches. Nothing is allocated or shared between streams, and nothing
// waits.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/lapack_batch.hpp"

namespace tessera::kernels::cuda {

/// Factors whole matrices in registers, or the remaining rows and columns from `first` on, as in submit_lu_sweep().
/// @param size_class of plan::small_factorizations, for the remaining rows; of wider matrices it factors so many
/// columns
/// @pre getrf or getrf_nopiv, of such sizes; count >= 1; the stream's GPU is current
cudaError_t submit_small_lu(const LapackBatch& batch, std::size_t size_class, index_t first, cudaStream_t stream);

/// Factors columns [first, first + plan::lu_panel_columns) in registers.
/// @param size_class of plan::register_panels, for the remaining rows
/// @pre as above; the type is not z
cudaError_t submit_lu_register_panel(const LapackBatch& batch, std::size_t size_class, index_t first,
                                     cudaStream_t stream);

/// Factors columns [first, first + width) of every matrix, from row `first` on, by one thread block for each.
/// @param size_class of plan::lu_sweep(), for the remaining rows
/// @pre as above; earlier columns have been applied
cudaError_t submit_lu_sweep(const LapackBatch& batch, std::size_t size_class, index_t first, index_t width,
                            cudaStream_t stream);

/// Applies the panel in columns [first, first + plan::lu_panel_columns) to all other columns: its interchanges, and the
/// rows of U beside it.
/// @param most_columns the largest number of the matrices' columns
cudaError_t submit_lu_strips(const LapackBatch& batch, index_t first, index_t most_columns, cudaStream_t stream);

/// Updates the rest by the product of the panel's parts. @param most_rows, most_columns of the rest
cudaError_t submit_lu_update(const LapackBatch& batch, index_t first, index_t most_rows, index_t most_columns,
                             cudaStream_t stream);

/// Loads the kernels for the current GPU, and allows them the shared memory that they need there.
cudaError_t load_lu_kernels();

}  // namespace tessera::kernels::cuda
