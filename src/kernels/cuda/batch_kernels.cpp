#include "kernels/cuda/batch_kernels.hpp"

#include <algorithm>

#include "kernels/cuda/vendor_batch.hpp"
#include "kernels/plan/triangular_recursion.hpp"
#include "kernels/plan/vendor_batches.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::pieces;

/// In all. One that has nothing ends soon, but not at once.
constexpr index_t most_thread_blocks = index_t{1} << 22;

/// Of the largest problem. Above it may be an outlier, for which a grid that is cut by bounds has too many thread
/// blocks; below, the hardware gives out blocks better than shares of the work do.
constexpr index_t most_even_blocks = 256;

}  // namespace

cudaError_t BatchKernels::load(int ordinal) {
  int multiprocessors = 0;
  cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
  multiprocessors_ = multiprocessors;
  if (error == cudaSuccess) error = load_product_kernels();
  if (error == cudaSuccess) error = load_sweep_kernels();
  return error;
}

Outcome BatchKernels::submit(const Level3Batch& batch, const Submission& to) const {
  if (batch.common.is_triangular()) return {.cuda = submit_sweeps(batch, sweep_launch(batch), to.stream)};
  if (vendor_has(batch) && plan::vendor_is_sooner(batch.common.type, batch.m.of_all, batch.n.of_all, batch.k.of_all))
    return {.cublas = submit_vendor_products(batch, to)};
  return {.cuda = submit_products(batch, product_launch(batch, to), to.stream)};
}

// For each problem: some for every multiprocessor in all. Larger problems take turns.
index_t BatchKernels::unbounded(index_t problems) const {
  return std::clamp<index_t>(8 * multiprocessors_ / problems, 1, 1024);
}

ProductLaunch BatchKernels::product_launch(const Level3Batch& batch, const Submission& to) const {
  const Level3& bounds = batch.common;
  const index_t rows = bounds.updates_triangle() ? bounds.n : bounds.m, columns = bounds.n;
  const bool is_bounded = rows > 0 && columns > 0;
  ProductLaunch how;
  how.multiprocessors = multiprocessors_;
  how.size_class = plan::class_of_blocks(is_bounded ? std::max(rows, columns) : 0);
  const plan::ProductBlocks& blocks = plan::product_blocks(bounds.type, how.size_class);
  const index_t down = pieces(rows, blocks.rows), across = pieces(columns, blocks.columns);
  // Of a triangle about half; where it is more, blocks take turns.
  const index_t crossed = bounds.updates_triangle() ? (down * across + std::max(down, across)) / 2 : down * across;
  const index_t largest = is_bounded ? crossed : unbounded(batch.count);
  how.most_blocks = std::clamp<index_t>(most_thread_blocks / batch.count, 1, largest);
  const bool may_spread = batch.has_sizes_of_each() && plan::is_for_any_spread(how.size_class) &&
                          (!is_bounded || largest > most_even_blocks);
  if (may_spread && to.workspace_bytes >= summed_bytes(batch.count)) how.summed = to.workspace;
  return how;
}

SweepLaunch BatchKernels::sweep_launch(const Level3Batch& batch) const {
  const Level3& bounds = batch.common;
  const index_t order = plan::order_of(bounds), columns = plan::columns_of(bounds);
  SweepLaunch how;
  how.size_class = plan::class_of_sweeps(order);
  const plan::SweepStrips& strips = plan::sweep_strips(bounds.routine == Routine::trsm, bounds.type, how.size_class);
  const index_t largest = columns > 0 ? pieces(columns, strips.columns) : unbounded(batch.count);
  how.strips = std::clamp<index_t>(most_thread_blocks / batch.count, 1, largest);
  return how;
}

}  // namespace tessera::kernels::cuda
