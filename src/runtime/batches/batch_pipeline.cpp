#include "runtime/batches/batch_pipeline.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <variant>

#include "core/error.hpp"
#include "core/error_text.hpp"
#include "core/process.hpp"
#include "core/reserve.hpp"
#include "core/side_by_side.hpp"
#include "core/thread.hpp"

namespace tessera::runtime {
namespace {

using device::EventPtr;
using device::EventStatus;
using device::StreamId;
using device::StreamKind;

/// Less is not worth a submission.
constexpr index_t least_slot_bytes = index_t{256} << 10;
/// Chunks that a lane should get, so that none ends long after the others.
constexpr index_t turns = 2;
/// Slots begin at multiples of this.
constexpr index_t slot_alignment = 4096;
/// While a thread unpacks one lane, another is under way.
constexpr index_t least_lanes_of_thread = 2;

/// How often a thread looks that waits for a chunk. Others of its device's are under way meanwhile, and looks of many
/// threads would keep the driver's lock from those that submit.
constexpr std::chrono::microseconds between_looks{50};

void launch(kernels::TileOps& ops, int compute_stream, const PackedChunk& packed) {
  if (const auto* const products = std::get_if<kernels::Level3Batch>(&packed.batch))
    return ops.run_batch(compute_stream, *products, packed.flops);
  ops.run_lapack_batch(compute_stream, std::get<kernels::LapackBatch>(packed.batch), packed.workspace, packed.flops);
}

index_t lanes_for(int threads) { return std::max<index_t>(least_lanes_of_thread * threads, device::compute_streams); }

}  // namespace

int packing_threads(const device::DeviceInfo& info, int devices, int processors) {
  if (info.copy_threads > 0) return info.copy_threads;
  return std::clamp(processors / std::max(devices, 1), 1, info.profile.staging.most_threads);
}

BatchPlan plan_batch(std::span<const PackingCapacity> capacities, index_t bytes, index_t largest_bytes,
                     index_t most_on_host) {
  index_t lanes = 0, most_memory = 0, most_bytes = least_slot_bytes;
  for (const PackingCapacity& device : capacities) {
    if (device.bytes == 0) continue;
    lanes += lanes_for(device.threads);
    most_memory = std::max(most_memory, device.bytes);
    most_bytes = std::max(most_bytes, device.chunk_bytes);
  }
  BatchPlan plan;
  plan.shares.resize(capacities.size());
  if (lanes == 0) return plan;
  const index_t share = std::clamp(bytes / (turns * lanes), least_slot_bytes, most_bytes);
  const index_t wanted = (std::max(share, largest_bytes) + slot_alignment - 1) / slot_alignment * slot_alignment;
  plan.slot_bytes = std::min(wanted, most_memory / slot_alignment * slot_alignment);
  if (plan.slot_bytes == 0) return plan;
  index_t planned = 0;
  for (std::size_t d = 0; d < capacities.size(); ++d) {
    plan.shares[d].lanes = std::min(lanes_for(capacities[d].threads), capacities[d].bytes / plan.slot_bytes);
    planned += plan.shares[d].lanes;
  }
  const index_t most_lanes = most_on_host / plan.slot_bytes;
  for (std::size_t d = 0; d < capacities.size(); ++d) {
    BatchShare& own = plan.shares[d];
    if (planned > most_lanes && own.lanes > 0) own.lanes = std::max<index_t>(1, own.lanes * most_lanes / planned);
    own.threads = static_cast<int>(std::min<index_t>(capacities[d].threads, own.lanes));
  }
  return plan;
}

void free_lanes(std::span<LaneMemory> memories, const BatchPlan& plan, index_t most_on_host) noexcept {
  const auto is_used = [&](std::size_t d, std::size_t lane) {
    return static_cast<index_t>(lane) < plan.shares[d].lanes;
  };
  const auto bytes_of = [](const std::unique_ptr<device::HostMemory>& memory) {
    return memory ? static_cast<index_t>(memory->bytes()) : 0;
  };
  const auto free_if = [&](auto&& is_free) {
    for (std::size_t d = 0; d < memories.size(); ++d) {
      for (std::size_t lane = 0; lane < memories[d].size(); ++lane) {
        if (is_free(is_used(d, lane), bytes_of(memories[d][lane]))) memories[d][lane].reset();
      }
    }
  };
  const auto is_too_much = [&] {
    index_t sum = 0;
    for (std::size_t d = 0; d < memories.size(); ++d) {
      const auto lanes = std::max(memories[d].size(), static_cast<std::size_t>(plan.shares[d].lanes));
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const index_t held = lane < memories[d].size() ? bytes_of(memories[d][lane]) : 0;
        sum += is_used(d, lane) ? std::max(held, plan.slot_bytes) : held;
      }
    }
    return sum > most_on_host;
  };
  free_if([&](bool used, index_t bytes) { return !used && bytes > plan.slot_bytes; });
  if (is_too_much()) free_if([&](bool, index_t bytes) { return bytes > plan.slot_bytes; });
  if (is_too_much()) free_if([](bool used, index_t) { return !used; });
}

/// A chunk that is under way.
struct BatchPipeline::Lane {
  int number = 0;
  std::optional<std::size_t> chunk;
  PackedChunk packed;
  EventPtr up, kernel, down;
  // The streams' last events before the chunk, and its submission: they tell when its operations began.
  EventPtr former_up, former_kernel, former_down;
  double submitted_s = 0;
};

/// The state that the threads of one device share.
struct BatchPipeline::DeviceLanes {
  explicit DeviceLanes(const BatchDevice& device) : of(device) {}

  const BatchDevice& of;
  Mutex submitting;  ///< a device takes submissions of one thread at a time
  std::array<EventPtr, device::stream_count> last TESSERA_GUARDED_BY(submitting);
  /// Relaxed: a thread that misses it meets the failure itself.
  std::atomic<bool> failed = false;
  Mutex mutex;
  Outcome outcome TESSERA_GUARDED_BY(mutex);

  void fail(const std::exception_ptr& error) noexcept {
    failed.store(true, std::memory_order_relaxed);
    const LockGuard lock(mutex);
    if (!std::exchange(outcome.failed, true)) outcome.error = text_of(error);
  }
};

BatchPipeline::BatchPipeline(const PackableBatch& batch, index_t slot_bytes)
    : batch_(batch), slot_bytes_(slot_bytes), chunks_(batch.cut(slot_bytes)), done_(chunks_.size(), 0) {
  returned_.reserve(chunks_.size());
}

bool BatchPipeline::is_done() const {
  return std::all_of(done_.begin(), done_.end(), [](char done) { return done != 0; });
}

bool BatchPipeline::has_pending() const {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (done_[c] == 0 && chunks_[c].fits) return true;
  }
  return false;
}

std::optional<std::size_t> BatchPipeline::draw() {
  if (process::ending()) return std::nullopt;
  const LockGuard lock(mutex_);
  if (!returned_.empty()) {
    const std::size_t chunk = returned_.back();
    returned_.pop_back();
    return chunk;
  }
  while (next_ < chunks_.size() && !chunks_[next_].fits) ++next_;
  if (next_ == chunks_.size()) return std::nullopt;
  return next_++;
}

void BatchPipeline::put_back(std::size_t chunk) {
  const LockGuard lock(mutex_);
  returned_.push_back(chunk);
}

std::vector<BatchPipeline::Outcome> BatchPipeline::run(std::span<const BatchDevice> devices) {
  std::vector<std::unique_ptr<DeviceLanes>> all_lanes;
  for (const BatchDevice& device : devices) {
    all_lanes.push_back(std::make_unique<DeviceLanes>(device));
    device.on_host->resize(std::max(device.on_host->size(), static_cast<std::size_t>(device.share.lanes)));
  }
  // The first thread of each device first: there may be fewer chunks, or threads, than wanted.
  std::vector<std::pair<DeviceLanes*, int>> parts;
  int most = 0;
  for (const BatchDevice& device : devices) most = std::max(most, device.share.threads);
  for (int thread = 0; thread < most; ++thread) {
    for (const auto& each : all_lanes) {
      if (thread < each->of.share.threads && parts.size() < chunks_.size()) parts.emplace_back(each.get(), thread);
    }
  }
  std::vector<Outcome> outcomes(devices.size());
  on_threads(parts.size(), [&](std::size_t part) { serve(*parts[part].first, parts[part].second); });
  for (std::size_t d = 0; d < outcomes.size(); ++d) {
    DeviceLanes& own = *all_lanes[d];
    const LockGuard lock(own.mutex);
    outcomes[d] = std::move(own.outcome);
  }
  return outcomes;
}

// A thread of a device: lanes thread, thread + threads, ...
void BatchPipeline::serve(DeviceLanes& own, int thread) noexcept {
  wake_on_time();
  try {
    own.of.device->attach_thread();
    std::vector<Lane> lanes;
    for (index_t number = thread; number < own.of.share.lanes; number += own.of.share.threads)
      lanes.emplace_back().number = static_cast<int>(number);
    feed(own, lanes);
  } catch (...) {
    own.fail(std::current_exception());
  }
}

// Keeps the lanes busy, oldest first, until nothing is left to draw. If the device fails, its chunks under way are put
// back.
void BatchPipeline::feed(DeviceLanes& own, std::span<Lane> lanes) {
  try {
    for (std::size_t turn = 0;; ++turn) {
      Lane& lane = lanes[turn % lanes.size()];
      if (lane.chunk) take(own, lane);
      if (own.failed.load(std::memory_order_relaxed)) break;
      if (const auto chunk = draw()) {
        submit(own, lane, *chunk);
      } else if (std::none_of(lanes.begin(), lanes.end(), [](const Lane& each) { return each.chunk.has_value(); })) {
        return;
      }
    }
  } catch (...) {
    own.fail(std::current_exception());
  }
  for (Lane& lane : lanes) {
    if (lane.chunk) put_back(*std::exchange(lane.chunk, std::nullopt));
  }
}

void BatchPipeline::submit(DeviceLanes& own, Lane& lane, std::size_t chunk) {
  lane.chunk = chunk;
  device::Device& device = *own.of.device;
  auto& on_host = (*own.of.on_host)[static_cast<std::size_t>(lane.number)];
  if (!on_host || on_host->bytes() < static_cast<std::size_t>(slot_bytes_)) {
    on_host.reset();
    on_host = device.host_memory(static_cast<std::size_t>(slot_bytes_));
  }
  std::byte* const here = on_host->data();
  std::byte* const there = own.of.memory + lane.number * slot_bytes_;
  lane.packed = batch_.pack(chunks_[chunk], here, there);
  const PackedChunk& packed = lane.packed;

  const StreamId up{StreamKind::up}, down{StreamKind::down};
  const StreamId compute{StreamKind::compute, lane.number % device::compute_streams};
  const auto record = [&](StreamId stream, EventPtr& former) TESSERA_REQUIRES(own.submitting) {
    EventPtr& last = own.last[static_cast<std::size_t>(stream_number(stream))];
    former = std::move(last);
    last = device.record(stream);
    return last;
  };
  const LockGuard lock(own.submitting);
  lane.submitted_s = device::now_seconds();
  device.copy_up({there, packed.up_bytes}, {here, packed.up_bytes}, {.column_bytes = packed.up_bytes, .columns = 1});
  lane.up = record(up, lane.former_up);
  device.wait(compute, lane.up);
  launch(*own.of.ops, compute.index, packed);
  lane.kernel = record(compute, lane.former_kernel);
  device.wait(down, lane.kernel);
  device.copy_down({here + packed.results_first, packed.results_bytes},
                   {there + packed.results_first, packed.results_bytes},
                   {.column_bytes = packed.results_bytes, .columns = 1});
  lane.down = record(down, lane.former_down);
}

// Waits for the lane's chunk and writes its results.
void BatchPipeline::take(DeviceLanes& own, Lane& lane) {
  const auto is_over = [&] {
    return lane.down->status() != EventStatus::pending || own.failed.load(std::memory_order_relaxed);
  };
  while (!is_over()) std::this_thread::sleep_for(between_looks);
  const EventStatus status = lane.down->status();
  if (status == EventStatus::pending) return;  // the device has failed elsewhere
  if (status == EventStatus::failed) throw DeviceLost("a chunk of a batch has failed");
  const std::size_t number = *std::exchange(lane.chunk, std::nullopt);
  const Chunk& chunk = chunks_[number];
  const PackedChunk& packed = lane.packed;
  batch_.unpack(chunk, packed, (*own.of.on_host)[static_cast<std::size_t>(lane.number)]->data());
  done_[number] = 1;

  const LockGuard lock(own.mutex);
  Outcome& outcome = own.outcome;
  outcome.problems += chunk.count();
  ++outcome.chunks;
  outcome.bytes_up += packed.up_bytes;
  outcome.bytes_down += packed.results_bytes;
  outcome.flops += packed.flops;
  add_operations(outcome.operations, lane);
}

// As far as there is memory for them.
void BatchPipeline::add_operations(std::vector<device::Operation>& operations, const Lane& lane) const {
  if (!try_reserve(operations, 3)) return;
  double ready_s = lane.submitted_s;
  const auto add = [&](device::Operation operation, const EventPtr& former, const EventPtr& end) {
    operation.begin_s = former ? std::max(ready_s, former->completed_at()) : ready_s;
    ready_s = operation.end_s = end->completed_at();
    operations.push_back(operation);
  };
  const PackedChunk& packed = lane.packed;
  add({.stream = {StreamKind::up}, .bytes = packed.up_bytes}, lane.former_up, lane.up);
  add({.stream = {StreamKind::compute, lane.number % device::compute_streams},
       .flops = packed.flops,
       .kernel = batch_.kernel_name()},
      lane.former_kernel, lane.kernel);
  add({.stream = {StreamKind::down}, .bytes = packed.results_bytes}, lane.former_down, lane.down);
}

}  // namespace tessera::runtime
