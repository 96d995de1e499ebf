#include "runtime/pipeline.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/level3.hpp"

namespace tessera::runtime {

using device::EventStatus;
using device::StreamId;
using device::StreamKind;

bool completed(const device::EventPtr& event) {
  switch (event->status()) {
    case EventStatus::pending:
      return false;
    case EventStatus::complete:
      return true;
    case EventStatus::failed:
      break;
  }
  throw DeviceLost("work submitted to the device has failed");
}

void Pipeline::begin(const Job& job) {
  streams_ = {};
  first_kernel_s_ = completed_flops_ = 0;
  steps_ = 0;
  flops_ = 0;
  type_ = job.graph().type();
  if (job.graph().factors()) {
    diagonal_tile_ = job.graph().tiling().n;
    const index_t tiles = (job.graph().n() + diagonal_tile_ - 1) / diagonal_tile_;
    infos_ = place_.device.host_memory(static_cast<std::size_t>(tiles) * sizeof(int));
  }
  if (!job.graph().has_steps_apart()) return;
  for (Stream& stream : streams_) {
    stream.scratch = place_.cache.take_scratch(place_.index);
    if (stream.scratch == nullptr) throw InternalError("worker: no room for scratch");
  }
}

void Pipeline::clear() {
  for (Stream& stream : streams_) stream.kernels.clear();
}

bool Pipeline::is_empty() const {
  return std::all_of(streams_.begin(), streams_.end(), [](const Stream& stream) { return stream.kernels.empty(); });
}

Backlog Pipeline::backlog() const {
  Backlog sum;
  for (const Stream& stream : streams_) {
    sum.kernels += stream.kernels.size();
    for (const Kernel& kernel : stream.kernels) sum.seconds += place_.expected_seconds(type_, kernel.flops);
  }
  return sum;
}

bool Pipeline::has_enough() const {
  const Backlog all = place_.traffic != nullptr ? place_.traffic->backlog() : backlog();
  return all.kernels >= fewest_kernels && all.seconds >= place_.device.info().profile.backlog_s;
}

std::size_t Pipeline::kernels_of(std::int64_t number) const {
  std::size_t sum = 0;
  for (const Stream& stream : streams_) {
    sum += static_cast<std::size_t>(std::count_if(stream.kernels.begin(), stream.kernels.end(),
                                                  [&](const Kernel& kernel) { return kernel.number == number; }));
  }
  return sum;
}

bool Pipeline::has_older_kernel(std::size_t stream, std::int64_t number) const {
  const auto& kernels = streams_[stream].kernels;
  return std::any_of(kernels.begin(), kernels.end(), [&](const Kernel& kernel) { return kernel.number < number; });
}

void Pipeline::launch(const Job& job, int stream_index, Submission& submission) {
  const StreamId stream{StreamKind::compute, stream_index};
  const Asked asked = submission.asked.front();
  submission.asked.pop_front();
  cache::Replica* const first_read = asked.number == 0 ? submission.output : nullptr;
  for (const cache::Replica* tile : {first_read, asked.x, asked.y}) {
    if (tile == nullptr || !tile->ready || tile->ready->status() == EventStatus::complete) continue;
    place_.device.wait(stream, tile->ready);
  }
  if (submission.launched && submission.stream != stream_index) place_.device.wait(stream, submission.launched);
  results_.await_copy_of_old(job, submission, asked.number, stream);
  auto begin = place_.device.record(stream);
  submit_call(job, asked, submission, stream_index);
  auto done = place_.device.record(stream);
  const double flops = asked.adds ? 0 : asked.step.flops();
  place_.cache.log(place_.index)
      .add({.stream = stream,
            .flops = flops,
            .task = submission.task,
            .step = asked.number,
            .kernel = asked.adds ? "add" : asked.step.kernel()},
           begin, done);
  ++steps_;
  flops_ += flops;
  submission.stream = stream_index;
  submission.launched = done;
  streams_[static_cast<std::size_t>(stream_index)].kernels.push_back(
      {std::move(begin), std::move(done), asked.x, asked.y, flops, submission.number,
       Result{submission.ended() ? submission.output : nullptr, submission.task, submission.old},
       asked.step.kind == StepKind::cholesky ? info_of(asked.step) : nullptr, asked.step.rows_before});
}

void Pipeline::submit_call(const Job& job, const Asked& asked, const Submission& submission, int stream) {
  const HostTile& C = submission.output->tile;
  const cache::Replica* const x = asked.x;
  const cache::Replica* const y = asked.y;
  const Step& step = asked.step;
  const auto add = [&](const AnyScalar& factor, const std::byte* X) {
    HostTile here = C;
    here.address = submission.output->address;
    here.ld = C.rows;
    place_.ops.add(stream, job.graph().addition_to(here, factor, X, C.rows));
  };
  if (asked.adds) {
    add(submission.beta, x->address);
    return;
  }
  const auto placed = [&](const cache::Replica& tile) {
    return PlacedTile{tile.address, tile.tile.rows, place_.cache.tail(tile)};
  };
  switch (step.kind) {
    case StepKind::cholesky:
      return place_.ops.factor(stream, step.factorization(placed(*submission.output), info_of(step)));
    case StepKind::panel:
      return place_.ops.factor_panel(stream, step.panel_in(placed(*submission.output)), step.panel.part_first,
                                     step.panel.part_columns);
    case StepKind::update:
      return place_.ops.apply_panel(stream, step.update_of(placed(*submission.output), placed(*x)));
    case StepKind::addition:
      return add(1, x->address);
    case StepKind::level3:
      break;
  }
  const auto element = static_cast<index_t>(element_bytes(job.graph().type()));
  Level3 call = step.call;
  call.A = x->address + step.a.first_row * element;
  call.lda = x->tile.rows;
  call.B = y != nullptr ? y->address + step.b.first_row * element : nullptr;
  call.ldb = y != nullptr ? y->tile.rows : 0;
  if (call.routine == Routine::symm || call.routine == Routine::hemm) call = as_gemm(call, *asked.x, stream);
  std::byte* const scratch = streams_[static_cast<std::size_t>(stream)].scratch;
  call.C = step.apart ? scratch : submission.output->address;
  call.ldc = C.rows;
  place_.ops.run(stream, call);
  if (step.apart) add(1, scratch);
}

// Kernels for symmetric operands reach half of the rate of a product (docs/adr/0010-kernels-and-power.md). The slot of a triangle
// has room for the other one, which nobody else reads. (Who copies the triangle meanwhile may read a diagonal that becomes
// real, and makes it so again.)
Level3 Pipeline::as_gemm(const Level3& call, cache::Replica& symmetric, int stream) {
  const StreamId id{StreamKind::compute, stream};
  if (symmetric.mirrored == nullptr) {
    const HostTile& tile = symmetric.tile;
    place_.ops.mirror(stream, {.type = call.type,
                               .stored = tile.part,
                               .hermitian = call.is_hermitian(),
                               .n = tile.rows,
                               .A = symmetric.address,
                               .lda = tile.rows});
    symmetric.mirrored = place_.device.record(id);
  } else if (symmetric.mirrored->status() != EventStatus::complete) {
    place_.device.wait(id, symmetric.mirrored);
  }
  Level3 product = call;
  product.routine = Routine::gemm;
  product.k = call.side == Side::left ? call.m : call.n;
  if (call.side == Side::right) {
    std::swap(product.A, product.B);
    std::swap(product.lda, product.ldb);
  }
  return product;
}

bool Pipeline::retire(Job& job, std::vector<Result>& results) {
  bool any = false;
  for (Stream& stream : streams_) {
    while (!stream.kernels.empty() && completed(stream.kernels.front().done)) {
      const Kernel kernel = std::move(stream.kernels.front());
      stream.kernels.pop_front();
      if (kernel.info != nullptr && *kernel.info > 0)
        job.break_down({kernel.result.task, kernel.rows_before + *kernel.info});
      if (kernel.x != nullptr) place_.cache.release(kernel.x);
      if (kernel.y != nullptr) place_.cache.release(kernel.y);
      completed_flops_ += kernel.flops;
      if (first_kernel_s_ <= 0) first_kernel_s_ = kernel.begun->completed_at();
      job.complete(static_cast<std::size_t>(place_.index), kernel.flops,
                   completed_flops_ / std::max(kernel.done->completed_at() - first_kernel_s_, 1e-9));
      if (kernel.result.output != nullptr) results.push_back(kernel.result);
      any = true;
    }
  }
  return any;
}

}  // namespace tessera::runtime
