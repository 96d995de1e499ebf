// What stands around solves and factorizations of a batch on one GPU, as launches: checks, interchanges of rows, and how
// inverses begin and end. Nothing is allocated, shared between streams, or waited for.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/lapack_batch.hpp"

namespace tessera::kernels::cuda {

/// Says of each problem what is wrong with it. @pre batch.info; count >= 1; the stream's GPU is current
cudaError_t submit_checks(const LapackBatch& batch, cudaStream_t stream);

/// Interchanges rows by the pivots: laswp in A; in the solves n of them in B, backwards where `op` transposes.
/// Problems whose info is not zero are left out. @pre as above, but for info
cudaError_t submit_interchanges(const LapackBatch& batch, cudaStream_t stream);

/// Solves with the factors, right-hand sides one after the other, a warp for each problem. Problems whose info is not
/// zero are left out, unless info is this launch's to tell.
/// @pre potrs, posv, getrs or gesv, with at most plan::most_rows_of_vector_solve rows
cudaError_t submit_vector_solves(const LapackBatch& batch, bool tells_info, cudaStream_t stream);

/// Checks, tells a zero on the factor's diagonal, and makes B the identity. @pre potri or getri; info and B
cudaError_t submit_identities(const LapackBatch& batch, cudaStream_t stream);
/// B, or its triangle, to A, where info is zero. @pre as above
cudaError_t submit_results(const LapackBatch& batch, cudaStream_t stream);

/// Loads the kernels for the current GPU.
cudaError_t load_solve_kernels();

}  // namespace tessera::kernels::cuda
