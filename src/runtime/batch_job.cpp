#include "runtime/batch_job.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include "core/error.hpp"
#include "core/process.hpp"
#include "core/side_by_side.hpp"
#include "core/thread.hpp"
#include "runtime/room.hpp"

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

/// How long the caller waits for the first thread. If none has come by then, the caller holds the loader's lock.
constexpr std::chrono::milliseconds first_thread_patience{500};

/// Which of the threads that have been started take part. One that the loader holds up may outlive the job, but then it
/// is not let in any more, and touches nothing else.
class Admission {
 public:
  explicit Admission(std::size_t threads) : has_part_(threads, false) {}

  bool enter(std::size_t thread) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    has_part_[thread] = true;
    has_begun_ = true;
    ++inside_;
    changed_.notify_one();
    return true;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --inside_;
    changed_.notify_one();
  }

  /// Returns when all that were let in have left; lets nobody in any more.
  void close() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, first_thread_patience, [this] { return has_begun_; }))
      changed_.wait(lock, [this] { return inside_ == 0; });
    closed_ = true;
  }
  /// @pre closed
  bool had_part(std::size_t thread) const {
    const std::lock_guard lock(mutex_);
    return has_part_[thread];
  }

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<bool> has_part_;  // by thread
  bool has_begun_ = false;
  bool closed_ = false;
  int inside_ = 0;
};

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

BatchPlan plan_batch(std::span<const BatchRoom> rooms, index_t bytes, index_t largest_bytes, index_t most_on_host) {
  index_t lanes = 0, most_room = 0, most_bytes = least_slot_bytes;
  for (const BatchRoom& room : rooms) {
    if (room.bytes == 0) continue;
    lanes += lanes_for(room.threads);
    most_room = std::max(most_room, room.bytes);
    most_bytes = std::max(most_bytes, room.chunk_bytes);
  }
  BatchPlan plan;
  plan.shares.resize(rooms.size());
  if (lanes == 0) return plan;
  const index_t share = std::clamp(bytes / (turns * lanes), least_slot_bytes, most_bytes);
  const index_t wanted = (std::max(share, largest_bytes) + slot_alignment - 1) / slot_alignment * slot_alignment;
  plan.slot_bytes = std::min(wanted, most_room / slot_alignment * slot_alignment);
  if (plan.slot_bytes == 0) return plan;
  index_t planned = 0;
  for (std::size_t d = 0; d < rooms.size(); ++d) {
    plan.shares[d].lanes = std::min(lanes_for(rooms[d].threads), rooms[d].bytes / plan.slot_bytes);
    planned += plan.shares[d].lanes;
  }
  const index_t most_lanes = most_on_host / plan.slot_bytes;
  for (std::size_t d = 0; d < rooms.size(); ++d) {
    BatchShare& own = plan.shares[d];
    if (planned > most_lanes && own.lanes > 0) own.lanes = std::max<index_t>(1, own.lanes * most_lanes / planned);
    own.threads = static_cast<int>(std::min<index_t>(rooms[d].threads, own.lanes));
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
struct BatchJob::Lane {
  int number = 0;
  std::optional<std::size_t> chunk;
  PackedChunk packed;
  EventPtr up, kernel, down;
  // What the streams had to do before, and when it was submitted: by these is known when it began.
  EventPtr former_up, former_kernel, former_down;
  double submitted_s = 0;
};

/// What the threads of one device share.
struct BatchJob::Station {
  explicit Station(const BatchDevice& device) : of(device) {}

  const BatchDevice& of;
  std::mutex submitting;  ///< a device takes submissions of one thread at a time; guards the next
  std::array<EventPtr, device::stream_count> last;
  /// Relaxed: a thread that misses it meets the failure itself.
  std::atomic<bool> failed = false;
  std::mutex mutex;  // guards the rest
  Outcome outcome;

  void fail(const std::exception_ptr& error) noexcept {
    failed.store(true, std::memory_order_relaxed);
    const std::lock_guard lock(mutex);
    if (!std::exchange(outcome.failed, true)) outcome.error = text_of(error);
  }
};

BatchJob::BatchJob(const PackableBatch& batch, index_t slot_bytes)
    : batch_(batch), slot_bytes_(slot_bytes), chunks_(batch.cut(slot_bytes)), done_(chunks_.size(), 0) {
  returned_.reserve(chunks_.size());
}

bool BatchJob::is_done() const {
  return std::all_of(done_.begin(), done_.end(), [](char done) { return done != 0; });
}

bool BatchJob::has_pending() const {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (done_[c] == 0 && chunks_[c].fits) return true;
  }
  return false;
}

std::optional<std::size_t> BatchJob::draw() {
  if (process::ending()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!returned_.empty()) {
    const std::size_t chunk = returned_.back();
    returned_.pop_back();
    return chunk;
  }
  while (next_ < chunks_.size() && !chunks_[next_].fits) ++next_;
  if (next_ == chunks_.size()) return std::nullopt;
  return next_++;
}

void BatchJob::put_back(std::size_t chunk) {
  const std::lock_guard lock(mutex_);
  returned_.push_back(chunk);
}

std::vector<BatchJob::Outcome> BatchJob::run(std::span<const BatchDevice> devices) {
  std::vector<std::unique_ptr<Station>> stations;
  std::size_t count = 0;
  for (const BatchDevice& device : devices) {
    stations.push_back(std::make_unique<Station>(device));
    device.on_host->resize(std::max(device.on_host->size(), static_cast<std::size_t>(device.share.lanes)));
    count += static_cast<std::size_t>(device.share.threads);
  }
  std::vector<Outcome> outcomes(devices.size());
  const auto admission = std::make_shared<Admission>(count);
  std::vector<Thread> threads;
  threads.reserve(count);
  // The first thread of each device first: there may be fewer chunks, or threads, than wanted.
  int most = 0;
  for (const BatchDevice& device : devices) most = std::max(most, device.share.threads);
  try {
    for (int thread = 0; thread < most; ++thread) {
      for (const auto& station : stations) {
        if (thread >= station->of.share.threads || threads.size() >= chunks_.size()) continue;
        // `this` and the station are there as long as somebody has a part.
        threads.push_back(start_thread([this, admission, number = threads.size(), &station = *station, thread] {
          pass_loader();
          if (!admission->enter(number)) return;
          serve(station, thread);
          admission->leave();
        }));
      }
    }
  } catch (const std::exception&) {  // those that there are do the work, or nobody does
  }
  if (!threads.empty()) admission->close();
  for (std::size_t t = 0; t < threads.size(); ++t) admission->had_part(t) ? threads[t].join() : threads[t].detach();
  for (std::size_t d = 0; d < stations.size(); ++d) outcomes[d] = std::move(stations[d]->outcome);
  return outcomes;
}

// A thread of a device: lanes thread, thread + threads, ...
void BatchJob::serve(Station& station, int thread) noexcept {
  wake_on_time();
  try {
    station.of.device->attach_thread();
    std::vector<Lane> lanes;
    for (index_t number = thread; number < station.of.share.lanes; number += station.of.share.threads)
      lanes.emplace_back().number = static_cast<int>(number);
    feed(station, lanes);
  } catch (...) {
    station.fail(std::current_exception());
  }
}

// Keeps the lanes busy, oldest first, until nothing is left to draw. What is under way when the device fails is put
// back.
void BatchJob::feed(Station& station, std::span<Lane> lanes) {
  try {
    for (std::size_t turn = 0;; ++turn) {
      Lane& lane = lanes[turn % lanes.size()];
      if (lane.chunk) take(station, lane);
      if (station.failed.load(std::memory_order_relaxed)) break;
      if (const auto chunk = draw()) {
        submit(station, lane, *chunk);
      } else if (std::none_of(lanes.begin(), lanes.end(), [](const Lane& each) { return each.chunk.has_value(); })) {
        return;
      }
    }
  } catch (...) {
    station.fail(std::current_exception());
  }
  for (Lane& lane : lanes) {
    if (lane.chunk) put_back(*std::exchange(lane.chunk, std::nullopt));
  }
}

void BatchJob::submit(Station& station, Lane& lane, std::size_t chunk) {
  lane.chunk = chunk;
  device::Device& device = *station.of.device;
  auto& on_host = (*station.of.on_host)[static_cast<std::size_t>(lane.number)];
  if (!on_host || on_host->bytes() < static_cast<std::size_t>(slot_bytes_)) {
    on_host.reset();
    on_host = device.host_memory(static_cast<std::size_t>(slot_bytes_));
  }
  std::byte* const here = on_host->data();
  std::byte* const there = station.of.memory + lane.number * slot_bytes_;
  lane.packed = batch_.pack(chunks_[chunk], here, there);
  const PackedChunk& packed = lane.packed;

  const StreamId up{StreamKind::up}, down{StreamKind::down};
  const StreamId compute{StreamKind::compute, lane.number % device::compute_streams};
  const auto record = [&](StreamId stream, EventPtr& former) {
    EventPtr& last = station.last[static_cast<std::size_t>(stream_number(stream))];
    former = std::move(last);
    last = device.record(stream);
    return last;
  };
  const std::lock_guard lock(station.submitting);
  lane.submitted_s = device::now_seconds();
  device.copy_up({there, packed.up_bytes}, {here, packed.up_bytes}, {.column_bytes = packed.up_bytes, .columns = 1});
  lane.up = record(up, lane.former_up);
  device.wait(compute, lane.up);
  launch(*station.of.ops, compute.index, packed);
  lane.kernel = record(compute, lane.former_kernel);
  device.wait(down, lane.kernel);
  device.copy_down({here + packed.results_first, packed.results_bytes},
                   {there + packed.results_first, packed.results_bytes},
                   {.column_bytes = packed.results_bytes, .columns = 1});
  lane.down = record(down, lane.former_down);
}

// Waits for the lane's chunk and writes its results.
void BatchJob::take(Station& station, Lane& lane) {
  const auto is_over = [&] {
    return lane.down->status() != EventStatus::pending || station.failed.load(std::memory_order_relaxed);
  };
  while (!is_over()) std::this_thread::sleep_for(between_looks);
  const EventStatus status = lane.down->status();
  if (status == EventStatus::pending) return;  // the device has failed elsewhere
  if (status == EventStatus::failed) throw DeviceLost("a chunk of a batch has failed");
  const std::size_t number = *std::exchange(lane.chunk, std::nullopt);
  const Chunk& chunk = chunks_[number];
  const PackedChunk& packed = lane.packed;
  batch_.unpack(chunk, packed, (*station.of.on_host)[static_cast<std::size_t>(lane.number)]->data());
  done_[number] = 1;

  const std::lock_guard lock(station.mutex);
  Outcome& outcome = station.outcome;
  outcome.problems += chunk.count();
  ++outcome.chunks;
  outcome.bytes_up += packed.up_bytes;
  outcome.bytes_down += packed.results_bytes;
  outcome.flops += packed.flops;
  add_operations(outcome.operations, lane);
}

// As far as there is memory for them.
void BatchJob::add_operations(std::vector<device::Operation>& operations, const Lane& lane) const {
  if (!has_room(operations, 3)) return;
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
