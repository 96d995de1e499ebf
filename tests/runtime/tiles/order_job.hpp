// A job with a worker that goes by one of the orders, with as many lanes as a test says.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/tiles/manual_job.hpp"

namespace tessera::test {

// The time that devices say a product takes. A long one gets a stream by its rank. Only a short one is launched before
// its tiles have come. Two long ones are enough for a while.
inline constexpr double long_s = 1e-3;
inline constexpr double medium_s = 1.5e-4;
inline constexpr double short_s = 0.5e-4;

/// Tasks of so many products each, of tiles that nobody else reads.
inline std::vector<DeclaredTask> separate_tasks(const std::vector<index_t>& steps) {
  std::vector<DeclaredTask> tasks;
  for (const index_t count : steps) {
    DeclaredTask& task = tasks.emplace_back();
    const auto number = 40 * static_cast<index_t>(tasks.size());
    for (index_t l = 0; l < count; ++l) task.steps.push_back(product(number + 2 * l, number + 2 * l + 1));
  }
  return tasks;
}
/// The addresses of these tasks' tiles, two of each step. @param steps task and step
inline std::vector<const void*> tiles_of(const std::vector<std::pair<runtime::TaskId, index_t>>& steps) {
  std::vector<const void*> tiles;
  for (const auto& [task, l] : steps) {
    for (const index_t operand : {0, 1}) tiles.push_back(numbered_tile(40 * (task + 1) + 2 * l + operand).address);
  }
  return tiles;
}

/// The job with a worker that goes by one of its orders.
template <auto order_of_worker>
struct OrderJob : ManualJob {
  /// Devices after it have so much to do that they get no tasks.
  /// @param elsewhere so many tasks, the first ones, are theirs
  /// @param d the worker's device
  OrderJob(const runtime::TaskGraph& graph, std::size_t lanes, const Options& options = {}, index_t elsewhere = 0,
           std::size_t d = 0)
      : ManualJob(graph, options), worker_(workers[d]) {
    for (index_t task = 0; task < elsewhere; ++task) pool->pop(0);
    for (std::size_t other = d + 1; other < devices.size(); ++other) pool->take(other, 1e9 * flops_of_product);
    worker_.results.begin(graph);
    worker_.intake.begin(*pool, lanes);
    order().begin(*pool, lanes);
    worker_.pipeline.begin(*pool);
  }

  ManualDevice& device() { return worker_.place.index == 0 ? devices.front() : devices.back(); }
  auto& order() { return worker_.*order_of_worker; }
  bool refill() { return order().refill(*pool); }
  bool submit() {
    refill();
    return order().submit(*pool);
  }
  void submit_all() {
    while (submit()) {
    }
  }
  bool prefetch() {
    refill();
    return order().prefetch(*pool);
  }
  /// Tasks that the worker has.
  index_t taken() { return worker_.intake.outputs(); }
  std::vector<const void*> fetched() { return device().fetched(); }
  void fill_link() { device().said().profile.link_queue_bytes = 0; }
  void bring(const cache::HostTile& tile) {
    cache->release(cache->pin(0, tile));
    device().finish_all();
  }

  /// The kernels that have been launched: the tasks of products, the streams, and the names.
  std::vector<runtime::TaskId> launched() {
    std::vector<runtime::TaskId> tasks;
    for (const auto& kernel : device().kernels())
      tasks.push_back(static_cast<runtime::TaskId>(kernel.call.alpha.real()) - 1);
    return tasks;
  }
  std::vector<int> streams() {
    std::vector<int> all;
    for (const auto& kernel : device().kernels()) all.push_back(kernel.stream.index);
    return all;
  }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const auto& kernel : device().kernels()) all.push_back(kernel.name);
    return all;
  }

 private:
  ManualWorker& worker_;
};
using LaneJob = OrderJob<&ManualWorker::lanes>;
using GroupJob = OrderJob<&ManualWorker::groups>;

}  // namespace tessera::test
