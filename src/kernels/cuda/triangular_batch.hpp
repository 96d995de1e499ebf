// Batches of triangular solves, and of triangular products in place: one launch, with a strip of columns of one problem
// per thread block (block/triangular_sweep.hpp). Nothing is allocated or shared between streams, and nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/level3_batch.hpp"
#include "kernels/plan/sweep_strips.hpp"

namespace tessera::kernels::cuda {

/// How a batch is launched.
struct SweepLaunch {
  std::size_t size_class = plan::any_sweep;  ///< of its strips (plan/sweep_strips.hpp)
  index_t strips = 1;                        ///< thread blocks per problem
};

/// @pre trsm or trmm; count >= 1; the stream's GPU is current
cudaError_t submit_sweeps(const Level3Batch& batch, const SweepLaunch& how, cudaStream_t stream);

/// Loads the kernels for the current GPU, and allows them the shared memory that they need there.
cudaError_t load_sweep_kernels();

}  // namespace tessera::kernels::cuda
