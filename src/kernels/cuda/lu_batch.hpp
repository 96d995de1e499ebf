// Batches of LU factorizations on one GPU, as launches. Nothing is allocated, shared between streams, or waited for.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/lapack_batch.hpp"

namespace tessera::kernels::cuda {

/// Whole matrices in registers, or what is left of them from row and column `first` on, as submit_lu_sweep() has it.
/// @param size_class of plan::small_factorizations, for the rows that are left; of wider matrices so many columns
/// @pre getrf or getrf_nopiv, of such sizes; count >= 1; the stream's GPU is current
cudaError_t submit_small_lu(const LapackBatch& batch, std::size_t size_class, index_t first, cudaStream_t stream);

/// Columns [first, first + plan::lu_panel_columns) in registers. @param size_class of plan::register_panels, for the
/// rows that are left @pre as above; not z
cudaError_t submit_lu_register_panel(const LapackBatch& batch, std::size_t size_class, index_t first,
                                     cudaStream_t stream);

/// Columns [first, first + width) of every matrix, by one thread block for each: from row `first` on, behind everything
/// that columns before mean for them. @param size_class of plan::lu_sweep(), for the rows that are left @pre as above
cudaError_t submit_lu_sweep(const LapackBatch& batch, std::size_t size_class, index_t first, index_t width,
                            cudaStream_t stream);

/// What the panel in columns [first, first + plan::lu_panel_columns) means for all others: its interchanges, and the
/// rows of U beside it. @param most_columns of the matrices
cudaError_t submit_lu_strips(const LapackBatch& batch, index_t first, index_t most_columns, cudaStream_t stream);

/// And the product that the rest is updated by. @param most_rows, most_columns of the rest
cudaError_t submit_lu_update(const LapackBatch& batch, index_t first, index_t most_rows, index_t most_columns,
                             cudaStream_t stream);

/// Loads the kernels for the current GPU, and allows them the shared memory that they need there.
cudaError_t load_lu_kernels();

}  // namespace tessera::kernels::cuda
