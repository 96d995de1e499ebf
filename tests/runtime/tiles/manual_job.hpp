// A job on devices that a test moves by hand: a graph that is declared task by task, and the parts of each worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "cache/tile_cache.hpp"
#include "runtime/tiles/group_order.hpp"
#include "runtime/tiles/intake.hpp"
#include "runtime/tiles/lane_order.hpp"
#include "runtime/tiles/pipeline.hpp"
#include "runtime/tiles/results.hpp"
#include "runtime/tiles/task_pool.hpp"
#include "tests/runtime/tiles/manual_device.hpp"

namespace tessera::test {

inline constexpr index_t manual_tile = 8;
inline constexpr double flops_of_product = 2.0 * manual_tile * manual_tile * manual_tile;

/// A tile without memory. @param number from 1 on; outputs of tasks begin at 1000
inline cache::HostTile numbered_tile(index_t number) {
  return {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(number) << 16), manual_tile, manual_tile,
          manual_tile};
}
inline cache::HostTile output_of(runtime::TaskId task) { return numbered_tile(1000 + task); }

/// C += A B, of tiles of these numbers; 0: there is none.
inline runtime::Step product(index_t a, index_t b) {
  runtime::Step step{.kernel = Level3{.m = manual_tile, .n = manual_tile, .k = manual_tile, .beta = 1}};
  if (a > 0) step.a.tile = numbered_tile(a);
  if (b > 0) step.b.tile = numbered_tile(b);
  return step;
}
/// The same, where A is the tile that another task writes.
inline runtime::Step product_by_output(runtime::TaskId writer, index_t b) {
  runtime::Step step = product(0, b);
  step.a = {.tile = output_of(writer), .writer = writer};
  return step;
}

/// A panel that another task writes is applied to the output.
inline runtime::Step panel_update(runtime::TaskId writer) {
  const kernels::Panel panel{.m = manual_tile, .n = manual_tile};
  runtime::Step step{.kernel = kernels::PanelUpdate{.panel = panel, .n = manual_tile}};
  step.a = {.tile = output_of(writer), .writer = writer};
  return step;
}
/// A tile on the diagonal is factored.
inline runtime::Step factorization(index_t rows_before) {
  return {.kernel = kernels::TileFactorization{.n = manual_tile}, .rows_before = rows_before};
}

struct DeclaredTask {
  std::vector<runtime::Step> steps;
  index_t home = 0;
  index_t first_wave = 0;
  bool reads_old = false;
  bool intermediate = false;
  device::SliceKind slices = device::SliceKind::none;
};

/// Products are multiplied by the number of their task, from 1 on, so that kernels can be told from each other.
class DeclaredGraph final : public runtime::TaskGraph {
 public:
  explicit DeclaredGraph(std::vector<DeclaredTask> tasks, std::vector<runtime::TaskId> ends_of_groups = {},
                         bool can_be_repeated = true)
      : declared_(std::move(tasks)) {
    routine = "dgemm";
    m = n = k = manual_tile;
    tiling = {manual_tile, manual_tile, manual_tile};
    task_count = static_cast<index_t>(declared_.size());
    slot_bytes = manual_tile * manual_tile * sizeof(double);
    working_slots = 1;
    group_ends = std::move(ends_of_groups);
    repeatable = can_be_repeated;
    derive();
    for (runtime::TaskId task = 0; task < task_count; ++task) work.flops += of(task).flops;
  }

  runtime::Output output(runtime::TaskId task) const override {
    const DeclaredTask& declared = at(task);
    return {.tile = output_of(task),
            .reads_old = declared.reads_old,
            .slices = declared.slices,
            .intermediate = declared.intermediate};
  }
  index_t step_count(runtime::TaskId task) const override { return static_cast<index_t>(at(task).steps.size()); }
  runtime::Step step(runtime::TaskId task, index_t l) const override {
    runtime::Step step = at(task).steps[static_cast<std::size_t>(l)];
    auto* const call = std::get_if<Level3>(&step.kernel);
    if (call == nullptr) return step;
    call->alpha = static_cast<double>(task + 1);
    if (l == 0) call->beta = at(task).reads_old ? 0.5 : 0;
    return step;
  }
  index_t wave(runtime::TaskId task, index_t nth) const override { return at(task).first_wave + nth; }
  index_t home(runtime::TaskId task, index_t devices) const override { return at(task).home % devices; }

 private:
  const DeclaredTask& at(runtime::TaskId task) const { return declared_[static_cast<std::size_t>(task)]; }
  std::vector<DeclaredTask> declared_;
};

/// A copy of an old value that is as far as a test says.
class ManualCopy final : public runtime::OldCopy {
 public:
  bool is_whole() const override { return whole; }
  bool has_failed() const override { return failed; }
  bool restore() noexcept override { return false; }
  bool whole = false, failed = false;
};

/// The parts of a worker (runtime::Worker), each of which a test may call by itself.
struct ManualWorker {
  ManualWorker(int index, ManualDevice& device, cache::TileCache& cache, runtime::Signal& signal,
               runtime::OldValues* old_values)
      : place{index, device, device, cache, signal, old_values, nullptr} {}

  const runtime::Workplace place;
  runtime::Results results{place};
  runtime::Pipeline pipeline{place, results};
  runtime::Intake intake{place};
  runtime::LaneOrder lanes{place, pipeline, results, intake};
  runtime::GroupOrder groups{place, pipeline, results, intake};
};

struct ManualJob {
  struct Options {
    std::vector<index_t> slots = {100};  ///< of each device
    bool connected = true;               ///< devices copy from each other
    bool side_by_side = false;
    OldValuesPlace old_values = OldValuesPlace::nowhere;
    runtime::HostCopies* host_copies = nullptr;
    double product_s = 0;  ///< the time that devices say a product takes; 0: they do not know
  };

  ManualJob(const runtime::TaskGraph& graph, const Options& options)
      : old_values(options.old_values, options.host_copies), graph_(graph), options_(options) {
    std::vector<cache::CacheDevice> places;
    for (std::size_t d = 0; d < options.slots.size(); ++d) {
      ManualDevice& device = devices.emplace_back(static_cast<int>(d), options.connected);
      if (options.product_s > 0) device.said().flops_per_s = RatesByType(flops_of_product / options.product_s);
      const std::size_t bytes = static_cast<std::size_t>(options.slots[d]) * graph.slot_bytes;
      places.push_back({&device, device.reserve(bytes), bytes});
    }
    cache.emplace(places);
    cache->begin_job(graph.slot_bytes, sizeof(double));
    const std::vector<bool> usable(devices.size(), true);
    std::vector<runtime::TaskId> tasks(static_cast<std::size_t>(graph.task_count));
    std::iota(tasks.begin(), tasks.end(), runtime::TaskId{0});
    const bool keeps = options.old_values != OldValuesPlace::nowhere;
    if (keeps) old_values.begin_job(*cache, graph, usable);
    pool.emplace(
        graph, usable, tasks, options.side_by_side, [this] { ++raised; }, [this] { ++announced; });
    for (std::size_t d = 0; d < devices.size(); ++d) {
      workers.emplace_back(static_cast<int>(d), devices[d], *cache, signal, keeps ? &old_values : nullptr);
    }
  }

  ManualDevice& device() { return devices.front(); }
  ManualWorker& worker() { return workers.front(); }

  /// Begins the job on all devices, or on one. @param order of its worker
  template <class Order>
  void begin(Order ManualWorker::*order, std::size_t d = 0) {
    ManualWorker& worker = workers[d];
    const std::size_t lanes = runtime::LaneSlots::lanes_in(cache->slots(static_cast<int>(d)));
    worker.results.begin(graph_);
    worker.intake.begin(*pool, lanes);
    (worker.*order).begin(*pool, lanes);
    worker.pipeline.begin(*pool);
  }
  /// Lets go of all that has ended, as a worker does before it submits.
  bool retire(std::size_t d = 0) {
    ManualWorker& worker = workers[d];
    std::vector<runtime::Result> ended;
    bool any = false;
    while (worker.pipeline.retire(*pool, ended)) any = true;
    for (const runtime::Result& result : ended) worker.results.add(*pool, result);
    any |= worker.results.retire(*pool);
    worker.intake.finished(worker.results.take_finished());
    return cache->collect(static_cast<int>(d)) || any;
  }

  index_t pinned(int d = 0) const { return cache->counters(d).pinned; }

  std::deque<ManualDevice> devices;
  std::optional<cache::TileCache> cache;
  runtime::Signal signal;
  runtime::OldValues old_values;
  int raised = 0;
  int announced = 0;
  std::optional<runtime::TaskPool> pool;
  std::deque<ManualWorker> workers;

 private:
  const runtime::TaskGraph& graph_;
  const Options options_;
};

}  // namespace tessera::test
