// A schedule without a machine: the real workers, cache and task graphs on modelled devices, in virtual time, on one
// thread. The result is exact and the same every time, so a test can rely on it. It takes milliseconds where the job
// would take seconds.
//
// Model: a device has one compute engine for its four streams and one engine for each direction of its links. Of the
// ready work an engine takes that of the stream with the lowest number, as streams are ranked on GPUs. A kernel of a
// stream of higher rank interrupts a running one, which continues after it; copies are not interrupted. A kernel takes
// flops / rate + overhead, a copy bytes / rate + overhead. Copies over host links share the host's rates in that
// direction and in both directions. The shares are computed anew for every piece of some MiB. A worker looks at its
// device some time after anything has completed. Nothing is stored: addresses are only compared.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cache/tile_cache.hpp"
#include "device/device.hpp"
#include "kernels/tile_ops.hpp"
#include "routines/lapack.hpp"
#include "routines/level3.hpp"
#include "routines/plan.hpp"
#include "runtime/devices/signal.hpp"
#include "runtime/performance_model.hpp"
#include "runtime/statistics.hpp"
#include "runtime/tiles/task_pool.hpp"
#include "runtime/tiles/worker.hpp"

namespace tessera::test {

/// Rates per second.
struct ModelledMachine {
  int devices = 1;
  std::vector<double> speeds;  ///< of the devices' kernels and links, relative to the rates below; missing ones are 1
  bool connected = true;       ///< devices copy from each other
  unsigned seed = 0;           ///< for the order in which workers look; 0: in turns
  int lost = -1;  ///< this device is lost after `looks` looks, and the others restart with the tasks that are
                  ///< left
  int looks = 0;
  std::size_t memory_bytes = std::size_t{100} << 30;
  std::vector<std::size_t> memories;  ///< of the devices if they differ; missing ones are memory_bytes
  std::vector<RatesByType> rates;     ///< of the devices' kernels instead of `flops`; missing ones are `flops`
  std::optional<RatesByType> said;    ///< the rates that devices report; default: the true ones without `speeds`
  double flops = 58e12;               ///< of one device, double precision; single precision counts the same
  double panel_column_s = 3e-6;       ///< for each column of a panel,
  double panel_element_s = 1.3e-10;   ///< and for each of its elements
  double factor_flops = 1e12;         ///< of a tile on the diagonal: mostly small kernels in sequence
  double link_bytes = 50e9;           ///< of one device in one direction
  double host_bytes = 150e9;          ///< of all links in one direction
  double host_both = 160e9;           ///< of all links in both directions
  double peer_bytes = 350e9;          ///< into one device, and out of it
  bool keeps_old_values = false;      ///< on peers that have room; else not at all
  bool interrupts = true;             ///< a kernel waits while those of streams of higher rank run, as on a GPU
  double kernel_overhead = 8e-6;
  double copy_overhead = 8e-6;
  double short_column_bytes = 0;  ///< a copy of columns of this many bytes takes twice as long as one of long columns
  bool in_pages = false;          ///< instead: columns are copied in pieces that end at pages of 64 KiB of host memory
  double look = 15e-6;            ///< from the completion of work until the worker sees it
  double submission = 0;          ///< the worker's time per kernel; useful with one device, since all share the clock
  double poll = 0;                ///< likewise, per question whether an event has completed
  device::DeviceProfile profile = device::gpu_profile(9, 0);

  std::size_t memory_of(int device) const {
    const auto d = static_cast<std::size_t>(device);
    return d < memories.size() ? memories[d] : memory_bytes;
  }
};

/// One H200, or several of one host (docs/performance).
inline ModelledMachine modelled_h200(int devices) {
  ModelledMachine machine;
  machine.devices = devices;
  machine.host_both = devices == 1 ? 95e9 : 160e9;
  machine.short_column_bytes = 5000;  // docs/adr/0003-tall-tiles.md
  return machine;
}

/// Bytes per second that its copy engine moves beside kernels at most.
inline constexpr double h200_page_bytes = 54.5e9;

/// The same with the rates at which the copy engine moves columns beside kernels (docs/adr/0003-tall-tiles.md, pages of
/// 64 KiB). Nearer to the machine if leading dimensions are multiples of 64 KiB, too slow if they are not.
inline ModelledMachine modelled_h200_in_pages(int devices) {
  ModelledMachine machine = modelled_h200(devices);
  machine.link_bytes = h200_page_bytes;
  if (devices == 1) machine.host_both = 100e9;
  machine.in_pages = true;
  return machine;
}

/// The time of a copy of these columns relative to that at h200_page_bytes.
inline double slowness_in_pages(device::StreamKind kind, device::Block host, device::Extent extent) {
  constexpr std::uintptr_t page = 65536;
  constexpr double kib = 1024;
  constexpr double fastest = 1e-6 * h200_page_bytes;  // per microsecond
  if (host.pitch_bytes == extent.column_bytes) return 1;
  // Measured points, with linear interpolation.
  const auto microseconds = [](double bytes) {
    if (bytes <= 16 * kib) return bytes / 32e3;
    if (bytes <= 24 * kib) return 0.512;
    if (bytes <= 32 * kib) return 0.512 + (bytes / kib - 24) / 8 * 0.182;
    return std::max(bytes / fastest, 0.694 + std::min(bytes / kib - 32, 8.0) / 8 * 0.059);
  };
  const index_t columns = std::min<index_t>(extent.columns, 64);  // a sample for all
  double sum = 0;
  for (index_t j = 0; j < columns; ++j) {
    auto at = reinterpret_cast<std::uintptr_t>(host.address) + static_cast<std::uintptr_t>(j * host.pitch_bytes);
    for (const std::uintptr_t end = at + static_cast<std::uintptr_t>(extent.column_bytes); at < end;) {
      const std::uintptr_t next = std::min(end, (at / page + 1) * page);
      sum += microseconds(static_cast<double>(next - at));
      at = next;
    }
  }
  const double writing =
      kind == device::StreamKind::down && extent.column_bytes < static_cast<index_t>(page) ? 1.09 : 1;
  return std::max(1.0, sum * fastest / static_cast<double>(columns * extent.column_bytes)) * writing;
}

class VirtualClock {
 public:
  double now() const { return now_; }
  void set(double now) { now_ = now; }

 private:
  double now_ = 0;
};

class ModelledDevice;

class ModelledEvent final : public device::Event {
 public:
  /// @param device that advances during a query; nullptr: queries take no time
  explicit ModelledEvent(ModelledDevice* device) : device_(device) {}
  device::EventStatus status() const noexcept override;
  double completed_at() const override { return *at_; }
  bool completed() const { return at_.has_value(); }
  void complete(double at) { at_ = at; }

 private:
  ModelledDevice* device_;
  std::optional<double> at_;
};

/// The total traffic of the host's links.
struct HostTraffic {
  int up = 0;
  int down = 0;
};

class ModelledDevice : public device::Device, public kernels::TileOps {
 public:
  ModelledDevice(int ordinal, const ModelledMachine& machine, VirtualClock& clock, HostTraffic& host)
      : machine_(machine),
        speed_(static_cast<std::size_t>(ordinal) < machine.speeds.size()
                   ? machine.speeds[static_cast<std::size_t>(ordinal)]
                   : 1),
        kernel_rates_(static_cast<std::size_t>(ordinal) < machine.rates.size()
                          ? machine.rates[static_cast<std::size_t>(ordinal)]
                          : RatesByType(speed_ * machine.flops)),
        clock_(clock),
        host_(host) {
    info_.backend = "model";
    info_.ordinal = ordinal;
    info_.memory_bytes = machine.memory_of(ordinal);
    // Without `speeds`: the library does not know that a device is slower than others of its kind.
    info_.flops_per_s = machine.said.value_or(machine.rates.empty() ? RatesByType(machine.flops) : kernel_rates_);
    info_.link_bytes_per_s = machine.link_bytes;
    info_.profile = machine.profile;
  }

  const device::DeviceInfo& info() const override { return info_; }
  std::size_t free_memory_bytes() const override { return info_.memory_bytes; }
  std::byte* reserve(std::size_t) override {
    return reinterpret_cast<std::byte*>((std::uintptr_t{1} << 60) + (static_cast<std::uintptr_t>(info_.ordinal) << 50));
  }
  void copy_up(device::Block, device::Block host, device::Extent extent) override {
    copy(device::StreamKind::up, host, extent);
  }
  void copy_down(device::Block host, device::Block, device::Extent extent) override {
    copy(device::StreamKind::down, host, extent);
  }
  void copy_peer(device::Block, Device&, device::Block, device::Extent extent) override {
    copy(device::StreamKind::peer, {}, extent);
  }
  void copy_to_peer(Device&, device::Block, device::Block, device::Extent extent) override {
    copy(device::StreamKind::to_peer, {}, extent);
  }
  bool can_access(const Device&) const override { return machine_.connected; }
  device::EventPtr record(device::StreamId stream) override {
    auto event = std::make_shared<ModelledEvent>(machine_.poll > 0 ? this : nullptr);
    queue(stream).push_back({.records = event});
    settle();
    return event;
  }
  void wait(device::StreamId stream, const device::EventPtr& event) override {
    queue(stream).push_back({.awaits = event});
  }
  std::unique_ptr<device::HostPinning> pin_host(std::span<const device::HostRange>) override { return nullptr; }
  bool on_completion(std::function<void()> listener) override {
    listener_ = std::move(listener);
    return true;
  }
  void attach_thread() override {}
  bool recover() noexcept override { return false; }

  void run(int stream, const Level3& call) override { compute(stream, flops_of(call) / kernel_rates_[call.type]); }
  void add(int stream, const kernels::Addition& addition) override {
    // Bound by the bandwidth of the device's memory.
    const double bytes =
        3.0 * static_cast<double>(addition.m * addition.n) * static_cast<double>(element_bytes(addition.type));
    compute(stream, bytes / 4e12);
  }
  void mirror(int stream, const kernels::Mirroring& tile) override {
    const double bytes = static_cast<double>(tile.n * tile.n) * static_cast<double>(element_bytes(tile.type));
    compute(stream, bytes / 4e12);
  }
  void factor(int stream, const kernels::TileFactorization& tile) override {
    compute(stream, kernels::flops_of(tile) / std::min(machine_.factor_flops * speed_, kernel_rates_[tile.type]));
  }
  void factor_panel(int stream, const kernels::Panel& panel, index_t first, index_t columns) override {
    const double column_s = machine_.panel_column_s + static_cast<double>(panel.m - first) * machine_.panel_element_s;
    compute(stream, static_cast<double>(columns) * column_s / speed_);
  }
  void apply_panel(int stream, const kernels::PanelUpdate& update) override {
    compute(stream, kernels::flops_of(update) / kernel_rates_[update.panel.type]);
  }
  void run_batch(int stream, const kernels::Level3Batch& batch, double flops) override {
    compute(stream, flops / kernel_rates_[batch.common.type]);
  }
  void run_lapack_batch(int stream, const kernels::LapackBatch& batch, const kernels::Workspace& /*workspace*/,
                        double flops) override {
    compute(stream, flops / kernel_rates_[batch.type]);
  }

  /// The device's progress during a query of an event.
  void poll() { go_on_until(clock_.now() + machine_.poll); }

  /// Begins and ends all work that can. @return whether there was any
  bool settle() {
    bool any = false;
    for (bool progress = true; progress;) {
      progress = false;
      for (Engine& engine : engines_) progress |= end(engine);
      for (auto& stream : streams_) {
        while (!stream.empty() && pass(stream.front())) {
          stream.pop_front();
          progress = true;
        }
      }
      for (int kind = 0; kind < 5; ++kind) progress |= begin(static_cast<device::StreamKind>(kind));
      any |= progress;
    }
    return any;
  }

  /// When the next work ends.
  double next_end() const {
    double next = std::numeric_limits<double>::infinity();
    for (const Engine& engine : engines_) {
      if (engine.stream >= 0) next = std::min(next, engine.ends);
    }
    return next;
  }

 private:
  struct Operation {     // exactly one of: work, a point to record, an event to wait for
    double seconds = 0;  ///< of work that is no copy, and before a copy begins
    double bytes = 0;    ///< bytes left to copy
    std::shared_ptr<ModelledEvent> records = nullptr;
    device::EventPtr awaits = nullptr;

    bool works() const { return !records && !awaits; }
  };
  struct Engine {
    int stream = -1;  ///< whose first operation it runs
    double ends = 0;
    double bytes = 0;  ///< that have been copied by then
  };
  static constexpr double piece_bytes = 4 << 20;

  // While the worker is busy.
  void go_on_until(double then) {
    for (settle(); next_end() < then; settle()) clock_.set(next_end());
    clock_.set(then);
    settle();
  }
  std::deque<Operation>& queue(device::StreamId stream) {
    return streams_[static_cast<std::size_t>(device::stream_number(stream))];
  }
  void compute(int stream, double seconds) {
    if (machine_.submission > 0) go_on_until(clock_.now() + machine_.submission);
    queue({device::StreamKind::compute, stream}).push_back({.seconds = seconds + machine_.kernel_overhead});
  }
  void copy(device::StreamKind kind, device::Block host, device::Extent extent) {
    const double slowness =
        machine_.in_pages
            ? slowness_in_pages(kind, host, extent)
            : std::max(1.0, (1 + machine_.short_column_bytes / static_cast<double>(extent.column_bytes)) / 1.15);
    queue({kind}).push_back({.seconds = machine_.copy_overhead,
                             .bytes = (by_peer_link(kind) ? 1 : slowness) * static_cast<double>(extent.bytes())});
  }

  bool pass(Operation& operation) {
    if (operation.records) {
      operation.records->complete(clock_.now());
      if (listener_) listener_();
    }
    return operation.records || (operation.awaits && static_cast<ModelledEvent&>(*operation.awaits).completed());
  }

  bool end(Engine& engine) {
    if (engine.stream < 0 || engine.ends > clock_.now()) return false;
    auto& stream = streams_[static_cast<std::size_t>(engine.stream)];
    stream.front().bytes -= engine.bytes;
    if (stream.front().bytes <= 0) stream.pop_front();
    const auto kind = kind_of(engine.stream);
    if (kind == device::StreamKind::up) --host_.up;
    if (kind == device::StreamKind::down) --host_.down;
    engine.stream = -1;
    return true;
  }

  bool begin(device::StreamKind kind) {
    Engine& engine = engines_[static_cast<std::size_t>(kind)];
    Operation* first = nullptr;
    int of = -1;
    for (int number = 0; number < device::stream_count; ++number) {
      auto& stream = streams_[static_cast<std::size_t>(number)];
      if (kind_of(number) != kind || stream.empty() || !stream.front().works()) continue;
      Operation& operation = stream.front();
      if (first == nullptr) {
        first = &operation;
        of = number;
      }
    }
    if (first == nullptr) return false;
    if (engine.stream >= 0) {
      if (kind != device::StreamKind::compute || !machine_.interrupts || engine.stream <= of) return false;
      streams_[static_cast<std::size_t>(engine.stream)].front().seconds = engine.ends - clock_.now();
    }
    const bool by_link = kind == device::StreamKind::up || kind == device::StreamKind::down;
    const double bytes = by_link ? std::min(first->bytes, piece_bytes) : first->bytes;
    const double overhead = std::exchange(first->seconds, 0);
    engine = {of, clock_.now() + overhead + bytes / rate_of(kind), bytes};
    return true;
  }

  double rate_of(device::StreamKind kind) {
    if (kind == device::StreamKind::compute) return 1;  // no bytes
    if (by_peer_link(kind)) return machine_.peer_bytes;
    int& same = kind == device::StreamKind::up ? host_.up : host_.down;
    ++same;
    return std::min(
        {speed_ * machine_.link_bytes, machine_.host_bytes / same, machine_.host_both / (host_.up + host_.down)});
  }

  static bool by_peer_link(device::StreamKind kind) {
    return kind == device::StreamKind::peer || kind == device::StreamKind::to_peer;
  }
  static device::StreamKind kind_of(int number) {
    if (number < device::compute_streams) return device::StreamKind::compute;
    return static_cast<device::StreamKind>(number - device::compute_streams + 1);
  }

  const ModelledMachine& machine_;
  double speed_;
  RatesByType kernel_rates_;
  VirtualClock& clock_;
  HostTraffic& host_;
  device::DeviceInfo info_;
  std::function<void()> listener_;
  std::array<std::deque<Operation>, device::stream_count> streams_;
  std::array<Engine, 5> engines_;  // by StreamKind
};

inline device::EventStatus ModelledEvent::status() const noexcept {
  const device::EventStatus status = at_ ? device::EventStatus::complete : device::EventStatus::pending;
  if (device_ != nullptr) device_->poll();
  return status;
}

struct ModelledRun {
  double seconds = 0;
  std::vector<double> announced_s;  ///< when the job said that it would end soon
  double bound_s = 0;  ///< of the same model, with all transfers overlapped with each other and with kernels
  std::int64_t bytes_up = 0, bytes_down = 0, bytes_peer = 0, bytes_kept = 0;
  std::int64_t compulsory_up = 0, compulsory_down = 0;
  std::int64_t still_pinned = 0;  ///< pinned tiles at the end
  runtime::Tiling tiling;
  std::vector<std::vector<device::Operation>> operations;  ///< by device
  std::vector<runtime::TaskId> done;                       ///< ascending
  /// Looks of workers that found work or the job's end, although neither their devices nor the job had woken them.
  int missed_wakeups = 0;
  std::vector<std::int64_t> stolen;  ///< tasks, by device

  double fraction_of_bound() const { return bound_s / seconds; }
};

/// Runs the tasks on the usable devices until they are done or the workers have looked `looks` times.
inline ModelledRun modelled_attempt(const ModelledMachine& machine, const runtime::TaskGraph& graph,
                                    std::size_t element_bytes, const std::vector<runtime::TaskId>& tasks,
                                    const std::vector<bool>& usable, int looks) {
  constexpr double never = std::numeric_limits<double>::infinity();
  VirtualClock clock;
  HostTraffic host;
  std::deque<ModelledDevice> devices;
  std::vector<cache::CacheDevice> places;
  for (int d = 0; d < machine.devices; ++d) {
    ModelledDevice& device = devices.emplace_back(d, machine, clock, host);
    places.push_back({&device, device.reserve(machine.memory_of(d)), machine.memory_of(d)});
  }
  cache::TileCache cache(places);
  cache.begin_job(graph.slot_bytes, element_bytes);
  runtime::Signal signal;
  runtime::OldValues old_values(OldValuesPlace::peers, nullptr);
  old_values.begin_job(cache, graph, usable);
  std::deque<runtime::Worker> workers;
  std::vector<std::size_t> order;
  bool side_by_side = true;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    runtime::Worker& worker = workers.emplace_back(static_cast<int>(d), devices[d], devices[d], cache, signal, true,
                                                   machine.keeps_old_values ? &old_values : nullptr);
    if (!usable[d]) continue;
    side_by_side = side_by_side && worker.should_advance_side_by_side(graph);
    order.push_back(d);
  }
  ModelledRun run;
  const auto announce_end = [&] { run.announced_s.push_back(clock.now()); };
  // Workers look in any case, so a missed wake-up does not change the schedule, but it is counted.
  std::vector<char> woken(devices.size(), 1);
  const auto wake_all = [&] { std::fill(woken.begin(), woken.end(), 1); };
  for (std::size_t d = 0; d < devices.size(); ++d) devices[d].on_completion([&woken, d] { woken[d] = 1; });
  runtime::TaskPool job(graph, usable, tasks, side_by_side, wake_all, announce_end);
  for (const std::size_t d : order) workers[d].begin(job);
  const auto look = [&](std::size_t d) {
    bool awake = woken[d] != 0;
    for (int turns = 0;; ++turns) {
      if (turns > 1'000'000) throw std::runtime_error("a worker goes on without getting anywhere");
      if (!job.ended()) woken[d] = 0;
      const std::size_t waiting = job.station(d).size();
      const bool progress = workers[d].advance(job);
      // A task that was taken leaves a place in the station, which the next look fills at any time.
      if (job.ended() || job.station(d).size() < waiting) woken[d] = 1;
      if (!progress) return turns > 0;
      if (!std::exchange(awake, true)) ++run.missed_wakeups;
    }
  };

  const auto settle_all = [&] {
    bool any = false;
    for (bool progress = true; progress; any |= progress) {
      progress = false;
      for (ModelledDevice& device : devices) progress |= device.settle();
    }
    return any;
  };
  const auto next_end = [&] {
    double next = never;
    for (const ModelledDevice& device : devices) next = std::min(next, device.next_end());
    return next;
  };
  std::minstd_rand random(machine.seed);
  bool was_idle = false;
  for (double look_at = 0; !job.ended() && looks > 0; --looks) {
    // Devices continue until the workers look.
    for (settle_all(); next_end() < look_at; settle_all()) clock.set(next_end());
    clock.set(look_at);
    bool moved = false;
    for (bool progress = true; progress && !job.ended(); moved |= progress) {
      progress = false;
      if (machine.seed != 0) std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t d : order) progress |= look(d);
      progress |= settle_all();
    }
    // The worker's next look sees work that ended during this one.
    const bool idle = next_end() == never;
    if (!job.ended() && idle && ((was_idle && !moved) || machine.poll <= 0))
      throw std::runtime_error("nothing runs and nothing can be submitted");
    was_idle = idle;
    look_at = (idle ? clock.now() : next_end()) + machine.look;
  }

  if (job.ended()) {
    run.missed_wakeups +=
        static_cast<int>(std::count_if(order.begin(), order.end(), [&](std::size_t d) { return woken[d] == 0; }));
  }
  run.seconds = clock.now();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const cache::CacheCounters counters = cache.counters(static_cast<int>(d));
    run.bytes_up += counters.bytes_up;
    run.bytes_down += counters.bytes_down;
    run.bytes_peer += counters.bytes_peer;
    run.bytes_kept += counters.bytes_kept;
    runtime::Worker::Outcome outcome = workers[d].finish();
    run.done.insert(run.done.end(), outcome.done.begin(), outcome.done.end());
    run.operations.push_back(std::move(outcome.operations));
    run.stolen.push_back(outcome.stolen);
  }
  std::sort(run.done.begin(), run.done.end());
  // Copies between devices without a waiting task have ended, too.
  for (settle_all(); next_end() < never; settle_all()) clock.set(next_end());
  for (std::size_t d = 0; d < devices.size(); ++d) cache.collect(static_cast<int>(d));
  for (std::size_t d = 0; d < devices.size(); ++d) run.still_pinned += cache.counters(static_cast<int>(d)).pinned;
  return run;
}

/// Runs the graph that is planned for the machine.
inline ModelledRun modelled_plan(const ModelledMachine& machine, ScalarType type, const routines::ChoosePlan& choose) {
  VirtualClock clock;
  HostTraffic host;
  std::deque<ModelledDevice> devices;
  std::vector<runtime::DeviceCapacity> capacities;
  for (int d = 0; d < machine.devices; ++d)
    capacities.push_back({machine.memory_of(d), &devices.emplace_back(d, machine, clock, host).info()});
  const routines::Plan plan = choose(runtime::machines_of(capacities, type));
  const std::unique_ptr<runtime::TaskGraph>& graph = plan.graph;
  std::vector<runtime::TaskId> tasks(static_cast<std::size_t>(graph->task_count));
  std::iota(tasks.begin(), tasks.end(), runtime::TaskId{0});
  std::vector<bool> usable = runtime::members_of(plan.machine, capacities);
  for (std::size_t d = 0, used = 0; d < usable.size(); ++d)
    usable[d] = usable[d] && used++ < static_cast<std::size_t>(plan.machine.devices);
  if (machine.lost >= 0) {
    const ModelledRun before = modelled_attempt(machine, *graph, element_bytes(type), tasks, usable, machine.looks);
    std::erase_if(
        tasks, [&](runtime::TaskId task) { return std::binary_search(before.done.begin(), before.done.end(), task); });
    usable[static_cast<std::size_t>(machine.lost)] = false;
  }
  ModelledRun run =
      modelled_attempt(machine, *graph, element_bytes(type), tasks, usable, std::numeric_limits<int>::max());
  run.tiling = graph->tiling;
  run.compulsory_up = static_cast<std::int64_t>(graph->work.up);
  run.compulsory_down = static_cast<std::int64_t>(graph->work.down);
  const double one_way = std::min(machine.devices * machine.link_bytes, machine.host_bytes);
  const double both = std::min(2 * one_way, machine.host_both);
  run.bound_s = runtime::bound_seconds(graph->work, machine.devices * machine.flops, {one_way, one_way, both});
  return run;
}

/// Runs the call's graph. Operands have no memory: their addresses are invented here, and so are leading dimensions
/// that are below the rows.
inline ModelledRun modelled_run(const ModelledMachine& machine, Level3 call, index_t tile = 0) {
  call.A = reinterpret_cast<const void*>(std::uintptr_t{1} << 45);
  call.B = reinterpret_cast<const void*>(std::uintptr_t{2} << 45);
  call.C = reinterpret_cast<void*>(std::uintptr_t{3} << 45);
  call.lda = std::max(call.lda, shape_of_a(call).rows);
  call.ldb = std::max({call.ldb, shape_of_b(call).rows, index_t{1}});
  call.ldc = std::max(call.ldc, call.m);
  return modelled_plan(machine, call.type, [&](auto machines) { return routines::choose_plan(call, machines, tile); });
}

/// Runs the call's graph. The bound counts all work as products.
inline ModelledRun modelled_run(const ModelledMachine& machine, routines::CholeskyCall call, index_t tile = 0) {
  call.A = reinterpret_cast<void*>(std::uintptr_t{3} << 45);
  call.lda = call.n;
  return modelled_plan(machine, call.type, [&](auto machines) { return routines::choose_plan(call, machines, tile); });
}

/// Runs the graph of a LuCall or QrCall.
template <class Call>
ModelledRun modelled_columns(const ModelledMachine& machine, Call call, index_t columns = 0) {
  call.A = reinterpret_cast<void*>(std::uintptr_t{3} << 45);
  call.lda = call.m;
  return modelled_plan(machine, call.type,
                       [&](auto machines) { return routines::choose_plan(call, machines, columns); });
}

}  // namespace tessera::test
