// One attempt to run the pending tasks of a job on some devices: what it has there while it lasts, and what came of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "cache/tile_cache.hpp"
#include "runtime/tiles/cpu_worker.hpp"
#include "runtime/tiles/old_values.hpp"
#include "runtime/tiles/worker.hpp"

namespace tessera::runtime {

struct Attempt {
  std::unique_ptr<cache::TileCache> cache;       ///< of its parts of the devices' memories; all else refers to it
  std::optional<OldValues> old_values;           ///< nothing: they are not kept
  std::vector<bool> working;                     ///< the devices that take part
  std::vector<std::unique_ptr<Worker>> workers;  ///< theirs, by device
  std::vector<Worker::Outcome> outcomes;         ///< by device
  CpuWorker::Outcome by_cpu;
  Breakdown breakdown;

  TaskPool* job = nullptr;
  std::atomic<std::size_t> at_work = 0;  ///< devices; changes under the crew's mutex, and pairs with Crew::run()
  bool ends_soon = false;            ///< all results are in host memory or on their way there; guarded by that mutex
  std::condition_variable finished;  ///< a device, or all but the end; only the caller waits
};

}  // namespace tessera::runtime
