// A schedule without a machine: the real workers, cache and task graphs on modelled devices, in virtual time, on one
// thread. The result is exact and the same every time, so a test can rely on it. It takes milliseconds where the job
// would take seconds.
//
// Model: a device has one compute engine for its four streams and one engine for each direction of its links. Of the
// ready work an engine takes that of the stream with the lowest number, as streams are ranked on GPUs. A kernel of a
// stream of higher rank interrupts a running one, which continues after it; copies are not interrupted. A kernel takes
// flops / rate + overhead, a copy bytes / rate + overhead. Copies over host links share the host's rates in that
// direction and in both directions; the shape of columns slows only the device's own link down. The shares are computed
// anew for every piece of some MiB. A worker looks at its device some time after anything has completed. Nothing is
// stored: addresses are only compared.
#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
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
#include "tests/modelled_device.hpp"
#include "tests/modelled_machine.hpp"

namespace tessera::test {

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
