#include "kernels/cuda/product_kernels.hpp"

#include <algorithm>

#include "kernels/block/tile_schedule.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::pieces;

/// Blocks of the largest problem. With more, the largest may be an outlier, for which a cut grid has too many thread
/// blocks. With fewer, the hardware distributes blocks better than shares of the work do.
constexpr index_t most_even_blocks = 256;

}  // namespace

cudaError_t ProductKernels::load(int ordinal) {
  int multiprocessors = 0;
  const cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
  multiprocessors_ = multiprocessors;
  return error != cudaSuccess ? error : load_product_kernels();
}

ProductLaunch ProductKernels::launch_of(const Level3Batch& batch, const Submission& to) const {
  const Level3& bounds = batch.common;
  const index_t rows = bounds.updates_triangle() ? bounds.n : bounds.m, columns = bounds.n;
  const bool is_bounded = rows > 0 && columns > 0;
  ProductLaunch how;
  how.multiprocessors = multiprocessors_;
  how.size_class = plan::class_of_blocks(is_bounded ? std::max(rows, columns) : 0);
  const plan::ProductBlocks& blocks = plan::product_blocks(bounds.type, how.size_class);
  const index_t down = pieces(rows, blocks.rows), across = pieces(columns, blocks.columns);
  // A triangle has about half of the blocks. If it has more, each thread block computes several.
  const index_t crossed = bounds.updates_triangle() ? (down * across + std::max(down, across)) / 2 : down * across;
  const index_t largest = is_bounded ? crossed : unbounded(batch.count);
  how.most_blocks = std::clamp<index_t>(most_thread_blocks / batch.count, 1, largest);
  const bool may_spread = batch.has_sizes_of_each() && plan::is_for_any_spread(how.size_class) &&
                          (!is_bounded || largest > most_even_blocks);
  if (may_spread && to.workspace_bytes >= summed_bytes(batch.count)) how.summed = to.workspace;
  return how;
}

}  // namespace tessera::kernels::cuda
