// Batches of products, for all routines that update a matrix: one launch with a block of C per thread block
// (block/gemm_block.hpp). For a persistent grid another launch sums the costs before. Nothing is allocated or shared
// between streams, and nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/block/tile_schedule.hpp"
#include "kernels/level3_batch.hpp"
#include "kernels/plan/product_blocks.hpp"

namespace tessera::kernels::cuda {

/// How a batch is launched.
struct ProductLaunch {
  std::size_t size_class = plan::middle_block_size;  ///< of its blocks (plan/product_blocks.hpp)
  index_t most_blocks = 1;                           ///< for each problem, in a cut grid
  void* summed = nullptr;                            ///< memory of summed_bytes(); non-null: the grid is persistent
  index_t multiprocessors = 1;
};

/// Bytes that a persistent grid needs for so many problems: their costs, and those of chunks of them.
constexpr std::size_t summed_bytes(index_t count) {
  return static_cast<std::size_t>(count + (count + block::SummedCosts::problems_of_chunk - 1) /
                                              block::SummedCosts::problems_of_chunk) *
         sizeof(index_t);
}

/// @pre no trmm or trsm; count >= 1; the stream's GPU is current
cudaError_t submit_products(const Level3Batch& batch, const ProductLaunch& launch, cudaStream_t stream);

/// Loads the kernels for the current GPU, and allows them the shared memory that they need there.
cudaError_t load_product_kernels();

}  // namespace tessera::kernels::cuda
