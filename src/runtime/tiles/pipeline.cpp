#include "runtime/tiles/pipeline.hpp"

#include <algorithm>
#include <utility>

#include "calls/level3.hpp"
#include "core/error.hpp"

namespace tessera::runtime {

using device::EventStatus;
using device::StreamId;
using device::StreamKind;

namespace {

void run(kernels::TileOps& ops, int stream, const Kernel& kernel) {
  std::visit(ByKind{[&](const Level3& call) { ops.run(stream, call); },
                    [&](const kernels::Addition& addition) { ops.add(stream, addition); },
                    [&](const kernels::TileFactorization& tile) { ops.factor(stream, tile); },
                    [&](const PanelFactorization& p) { ops.factor_panel(stream, p.panel, p.first, p.columns); },
                    [&](const kernels::PanelUpdate& update) { ops.apply_panel(stream, update); }},
             kernel);
}

}  // namespace

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

void Pipeline::begin(const TaskPool& job) {
  streams_ = {};
  first_kernel_s_ = completed_flops_ = 0;
  steps_ = 0;
  flops_ = 0;
  type_ = job.graph().type;
  if (job.graph().factors) {
    diagonal_tile_ = job.graph().tiling.n;
    const index_t tiles = (job.graph().n + diagonal_tile_ - 1) / diagonal_tile_;
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
    for (const Launched& kernel : stream.kernels) sum.seconds += place_.expected_seconds(type_, kernel.flops);
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
                                                  [&](const Launched& kernel) { return kernel.number == number; }));
  }
  return sum;
}

bool Pipeline::has_older_kernel(std::size_t stream, std::int64_t number) const {
  const auto& kernels = streams_[stream].kernels;
  return std::any_of(kernels.begin(), kernels.end(), [&](const Launched& kernel) { return kernel.number < number; });
}

void Pipeline::launch(const TaskPool& job, int stream_index, Submission& submission) {
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
  submit(job, asked, submission, stream_index);
  auto done = place_.device.record(stream);
  const double flops = asked.step.flops();
  place_.cache.log(place_.index)
      .add({.stream = stream,
            .flops = flops,
            .task = submission.task,
            .step = asked.number,
            .kernel = asked.step.name()},
           begin, done);
  ++steps_;
  flops_ += flops;
  submission.stream = stream_index;
  submission.launched = done;
  streams_[static_cast<std::size_t>(stream_index)].kernels.push_back(
      {std::move(begin), std::move(done), asked.x, asked.y, flops, submission.number,
       Result{submission.ended() ? submission.output : nullptr, submission.task, submission.old}, info_of(asked.step),
       asked.step.rows_before});
}

void Pipeline::submit(const TaskPool& job, const Asked& asked, const Submission& submission, int stream) {
  const auto placed = [&](const cache::Replica* tile) {
    return tile == nullptr ? PlacedTile{} : PlacedTile{tile->address, tile->tile.rows, place_.cache.tail(*tile)};
  };
  const Step& step = asked.step;
  const PlacedTile C = placed(submission.output);
  const PlacedTile apart{streams_[static_cast<std::size_t>(stream)].scratch, C.ld};
  Kernel kernel = step.placed(step.apart ? apart : C, placed(asked.x), placed(asked.y), info_of(step));
  if (auto* const call = std::get_if<Level3>(&kernel); call != nullptr && !call->has_k() && !call->is_triangular())
    *call = as_gemm(*call, *asked.x, stream);
  run(place_.ops, stream, kernel);
  if (!step.apart) return;
  const TaskGraph& graph = job.graph();
  const Step addition = addition_step(graph.type, graph.hermitian, submission.output->tile, {}, 1);
  run(place_.ops, stream, addition.placed(C, apart, {}));
}

// Kernels for symmetric operands reach half of the rate of a product (docs/adr/0010-kernels-and-power.md). The slot of
// a triangle has room for the other one, which nobody else reads. (A copy of the triangle meanwhile may read a diagonal
// that becomes real, and its reader makes it so again.)
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

bool Pipeline::retire(TaskPool& job, std::vector<Result>& results) {
  bool any = false;
  for (Stream& stream : streams_) {
    while (!stream.kernels.empty() && completed(stream.kernels.front().done)) {
      const Launched kernel = std::move(stream.kernels.front());
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
