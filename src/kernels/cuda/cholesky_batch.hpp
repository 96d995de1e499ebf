// Batches of Cholesky factorizations on one GPU, as launches. Nothing is allocated, shared between streams, or waited
// for.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/lapack_batch.hpp"

namespace tessera::kernels::cuda {

/// Whole matrices in registers, or the triangles that begin at (first, first), behind everything that columns before mean
/// for them. @param size_class of plan::small_factorizations
/// @pre potrf, of such sizes, or with triangles of this class; count >= 1; the stream's GPU is current
cudaError_t submit_small_cholesky(const LapackBatch& batch, std::size_t size_class, index_t first, cudaStream_t stream);

/// The rows below the triangles of plan::cholesky_triangle rows at (first, first). @param most of these rows @pre as above
cudaError_t submit_cholesky_strips(const LapackBatch& batch, index_t first, index_t most, cudaStream_t stream);

/// Columns [first, first + width) of every factor, by one thread block for each: from row `first` on, behind everything
/// that columns before mean for them. @param size_class of plan::cholesky_sweep(), for the rows that are left
/// @pre as above
cudaError_t submit_cholesky_sweep(const LapackBatch& batch, std::size_t size_class, index_t first, index_t width,
                                  cudaStream_t stream);

/// The product that the rest is updated by, behind the panel of so many columns. @param most of the rest's rows
cudaError_t submit_cholesky_update(const LapackBatch& batch, index_t first, index_t width, index_t most,
                                   cudaStream_t stream);

/// Loads the kernels for the current GPU, and allows them the shared memory that they need there.
cudaError_t load_cholesky_kernels();

}  // namespace tessera::kernels::cuda
