// The launches around the solves and factorizations of a batch on one GPU: checks, interchanges of rows, and the first
// and last steps of inverses. Nothing is allocated or shared between streams, and nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/lapack_batch.hpp"

namespace tessera::kernels::cuda {

/// Reports the bad argument of each problem in info. @pre batch.info; count >= 1; the stream's GPU is current
cudaError_t submit_checks(const LapackBatch& batch, cudaStream_t stream);

/// Interchanges rows by the pivots: for laswp in A; for the solves n rows of B, backwards if `op` transposes. Skips
/// problems whose info is not zero. @pre as above, but for info
cudaError_t submit_interchanges(const LapackBatch& batch, cudaStream_t stream);

/// Solves with the factors, one right-hand side after the other, with a warp per problem. Skips problems whose info is
/// not zero, unless this launch sets info itself.
/// @pre potrs, posv, getrs or gesv, with at most plan::most_rows_of_vector_solve rows
cudaError_t submit_vector_solves(const LapackBatch& batch, bool tells_info, cudaStream_t stream);

/// Checks arguments, reports a zero on the factor's diagonal, and sets B to the identity. @pre potri or getri; info and
/// B
cudaError_t submit_identities(const LapackBatch& batch, cudaStream_t stream);
/// Copies B, or its triangle, to A where info is zero. @pre as above
cudaError_t submit_results(const LapackBatch& batch, cudaStream_t stream);

/// Loads the kernels for the current GPU.
cudaError_t load_solve_kernels();

}  // namespace tessera::kernels::cuda
