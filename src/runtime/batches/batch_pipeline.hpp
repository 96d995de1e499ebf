// A batch of small problems in host memory on its way through the devices: chunk by chunk (batch_chunk.hpp) it is
// packed, copied up, computed, copied down and unpacked.
//
// Lanes: each chunk that is under way has one, page-locked memory of its own on the host and a piece of the slab. Lanes
// take the compute streams in turn; on each, events order the copy up, the kernel and the copy down, so that packing,
// both directions of the link, kernels and unpacking of different chunks go on at the same time. Nobody waits for a
// stream.
// Threads: a link carries more than a thread can pack, so a device has several; each packs and unpacks for lanes of its
// own, and submits while it holds the device's lock. They live for one attempt: their start takes some ten
// microseconds, and a batch for devices takes milliseconds. So a fork or the end of the process finds none between
// batches. The caller may hold the loader's lock, for which a thread may have to wait. So a thread has a part only once
// it has passed through the loader (side_by_side.hpp), and the caller waits for no other. Quicker devices take more,
// since all threads draw chunks from one queue.
// Failure: a chunk's results are written to the caller's matrices by unpacking, when all of it is there; until then it
// can be computed anywhere. A device that fails puts back its chunks under way, for the others; chunks that nobody
// computes stay pending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/mutex.hpp"
#include "device/device.hpp"
#include "device/operation_log.hpp"
#include "kernels/backend.hpp"
#include "runtime/batches/batch_chunk.hpp"

namespace tessera::runtime {

/// How a device takes part.
struct BatchShare {
  int threads = 0;
  index_t lanes = 0;  ///< 0: not at all
};

/// The lanes of all devices.
struct BatchPlan {
  index_t slot_bytes = 0;          ///< of a lane, on the host and on the device: no chunk is larger
  std::vector<BatchShare> shares;  ///< by device
};

/// The resources that a device can give to a batch.
struct PackingCapacity {
  index_t bytes = 0;                                    ///< of memory; 0: it takes no part
  int threads = 1;                                      ///< of the host that may pack for it
  index_t chunk_bytes = device::Staging().chunk_bytes;  ///< see there
};

/// Divides a batch among devices: lanes large enough that a copy is worth its submission, and small enough that all
/// have work.
/// @param bytes of all problems as they are packed; `largest_bytes` of the largest one
/// @param most_on_host bytes that all lanes together may take there: there are fewer then, but one for each device that
/// takes part
BatchPlan plan_batch(std::span<const PackingCapacity> capacities, index_t bytes, index_t largest_bytes,
                     index_t most_on_host = std::numeric_limits<index_t>::max());

/// Threads that pack for a device. @param devices that pack at the same time
int packing_threads(const device::DeviceInfo& info, int devices, int processors);

/// Memory of a device's lanes on the host, which stays for the next batch.
using LaneMemory = std::vector<std::unique_ptr<device::HostMemory>>;

/// Frees lanes of former batches: those that the plan does not use and that are larger than its own. If the rest and
/// the lanes to come exceed `most_on_host` bytes, it frees larger ones that are used, too, and at last all that the
/// plan does not use. @param memories by device, as the plan's shares
void free_lanes(std::span<LaneMemory> memories, const BatchPlan& plan, index_t most_on_host) noexcept;

/// A device in an attempt.
struct BatchDevice {
  device::Device* device = nullptr;
  kernels::TileOps* ops = nullptr;
  std::byte* memory = nullptr;    ///< lanes * slot_bytes of the device's
  LaneMemory* on_host = nullptr;  ///< as many as there are lanes; grows
  BatchShare share;
};

class BatchPipeline {
 public:
  /// @param batch stays @throws std::bad_alloc
  BatchPipeline(const PackableBatch& batch, index_t slot_bytes);

  /// The work of a device, and whether it has failed.
  struct Outcome {
    bool failed = false;  ///< it must recover before its memory is used again
    std::string error;
    index_t problems = 0;
    index_t chunks = 0;
    index_t bytes_up = 0;
    index_t bytes_down = 0;
    double flops = 0;
    std::vector<device::Operation> operations;
  };

  /// Has the devices compute the pending chunks, until all are done, all devices have failed, or the process ends. Does
  /// nothing if no thread can be started or the caller holds the loader's lock. Does not throw once it has begun.
  /// @return by device @throws std::bad_alloc before it begins
  std::vector<Outcome> run(std::span<const BatchDevice> devices);

  bool is_done() const;
  /// Some chunk that devices could compute is pending.
  bool has_pending() const;

  /// compute(first, last) for each range of problems that nobody has computed, and counts it as done.
  template <class Compute>
  void finish(Compute&& compute) {
    for (std::size_t c = 0; c < chunks_.size();) {
      std::size_t end = c;
      while (end < chunks_.size() && done_[end] == 0) ++end;
      if (end == c) {
        ++c;
        continue;
      }
      compute(chunks_[c].first, chunks_[end - 1].last);
      for (; c < end; ++c) done_[c] = 1;
    }
  }

 private:
  struct DeviceLanes;
  struct Lane;

  std::optional<std::size_t> draw();
  void put_back(std::size_t chunk);
  void serve(DeviceLanes& own, int thread) noexcept;
  void feed(DeviceLanes& own, std::span<Lane> lanes);
  void submit(DeviceLanes& own, Lane& lane, std::size_t chunk);
  void take(DeviceLanes& own, Lane& lane);
  void add_operations(std::vector<device::Operation>& operations, const Lane& lane) const;

  const PackableBatch& batch_;
  const index_t slot_bytes_;
  std::vector<Chunk> chunks_;
  std::vector<char> done_;  ///< by chunk; written by the thread that had it, read when all threads have ended
  Mutex mutex_;
  std::size_t next_ TESSERA_GUARDED_BY(mutex_) = 0;
  std::vector<std::size_t> returned_
      TESSERA_GUARDED_BY(mutex_);  ///< never more than there are chunks: its memory is there from the beginning
};

}  // namespace tessera::runtime
