// Batches of products of 16-bit numbers: one launch with a block of C per thread block (block/half_block.hpp), or with
// many tiny problems per thread block (block/half_tiny.hpp). Nothing is allocated or shared between streams, and
// nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/half_batch.hpp"
#include "kernels/plan/half_blocks.hpp"

namespace tessera::kernels::cuda {

/// How a batch is launched.
struct HalfLaunch {
  plan::TinyChoice tiny;                            ///< if its way is `blocks`, the other members count:
  std::size_t size_class = plan::middle_half_size;  ///< of blocks of C
  index_t most_blocks = 1;                          ///< for each problem
};

/// @pre a gemm; count >= 1; the stream's GPU is current
cudaError_t submit_halves(const HalfBatch& batch, const HalfLaunch& launch, cudaStream_t stream);

/// Loads the kernels for the current GPU.
cudaError_t load_half_kernels();

/// The same for one type. Each type is compiled by itself (half_batch.cuh).
template <HalfType type>
cudaError_t submit_halves_of(const HalfBatch& batch, const HalfLaunch& launch, cudaStream_t stream);
template <HalfType type>
cudaError_t load_half_kernels_of();

}  // namespace tessera::kernels::cuda
