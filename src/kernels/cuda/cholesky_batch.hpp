// Batches of Cholesky factorizations on one GPU, as launches. Nothing is allocated or shared between streams, and
// nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/lapack_batch.hpp"

namespace tessera::kernels::cuda {

/// Factors whole matrices in registers, or the triangles that begin at (first, first), to which all earlier columns
/// have been applied.
/// @param size_class of plan::small_factorizations
/// @pre potrf, of such sizes or with triangles of this class; count >= 1; the stream's GPU is current
cudaError_t submit_small_cholesky(const LapackBatch& batch, std::size_t size_class, index_t first, cudaStream_t stream);

/// Solves for the rows below the triangles of plan::cholesky_triangle rows at (first, first).
/// @param most the largest number of these rows
/// @pre as above
cudaError_t submit_cholesky_strips(const LapackBatch& batch, index_t first, index_t most, cudaStream_t stream);

/// Factors columns [first, first + width) of every matrix, from row `first` on, by one thread block for each.
/// @param size_class of plan::cholesky_sweep(), for the rows that are left
/// @pre as above; earlier columns have been applied
cudaError_t submit_cholesky_sweep(const LapackBatch& batch, std::size_t size_class, index_t first, index_t width,
                                  cudaStream_t stream);

/// Updates the remaining triangle by the panel of so many columns. @param most the largest number of its rows
cudaError_t submit_cholesky_update(const LapackBatch& batch, index_t first, index_t width, index_t most,
                                   cudaStream_t stream);

/// Loads the kernels for the current GPU, and allows them the shared memory that they need there.
cudaError_t load_cholesky_kernels();

}  // namespace tessera::kernels::cuda
