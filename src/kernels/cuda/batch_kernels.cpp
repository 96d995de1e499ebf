#include "kernels/cuda/batch_kernels.hpp"

#include <algorithm>

#include "kernels/cuda/vendor_batch.hpp"
#include "kernels/plan/triangular_recursion.hpp"
#include "kernels/plan/vendor_batches.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::pieces;

}  // namespace

cudaError_t BatchKernels::load(int ordinal) {
  const cudaError_t error = products_.load(ordinal);
  return error != cudaSuccess ? error : load_sweep_kernels();
}

Outcome BatchKernels::submit(const Level3Batch& batch, const Submission& to) const {
  if (batch.common.is_triangular()) return {.cuda = submit_sweeps(batch, sweep_launch(batch), to.stream)};
  if (vendor_has(batch) && plan::vendor_is_sooner(batch.common.type, batch.m.of_all, batch.n.of_all, batch.k.of_all))
    return {.cublas = submit_vendor_products(batch, to)};
  return {.cuda = products_.submit(batch, to)};
}

SweepLaunch BatchKernels::sweep_launch(const Level3Batch& batch) const {
  const Level3& bounds = batch.common;
  const index_t order = plan::order_of(bounds), columns = plan::columns_of(bounds);
  SweepLaunch how;
  how.size_class = plan::class_of_sweeps(order);
  const plan::SweepStrips& strips = plan::sweep_strips(bounds.routine == Routine::trsm, bounds.type, how.size_class);
  const index_t largest = columns > 0 ? pieces(columns, strips.columns) : products_.unbounded(batch.count);
  how.strips = std::clamp<index_t>(most_thread_blocks / batch.count, 1, largest);
  return how;
}

}  // namespace tessera::kernels::cuda
