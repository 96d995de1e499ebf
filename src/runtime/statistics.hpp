// What a job did, per device. Filled by the workers, read when the job is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/scalar.hpp"

namespace tessera::runtime {

inline constexpr const char* cpu_device = "cpu";  ///< how the CPU is called beside devices

struct DeviceStatistics {
  std::string device;        ///< "host:0", "cuda:1", or cpu_device
  double kernel_s = 0;       ///< time in which at least one kernel ran
  double transfer_s = 0;     ///< time in which a copy, but no kernel, ran
  double other_s = 0;        ///< the rest of the job's device_s
  std::int64_t l1_hits = 0;  ///< tile was on this device
  std::int64_t l2_hits = 0;  ///< tile was on a peer, or on its way there
  std::int64_t misses = 0;   ///< tile came from host memory
  std::int64_t evictions = 0;
  std::int64_t bytes_up = 0;
  std::int64_t bytes_down = 0;
  std::int64_t bytes_peer = 0;  ///< into this device
  std::int64_t bytes_kept = 0;  ///< old values of C, from this device to one that keeps them
  std::int64_t tasks = 0;       ///< completed here
  std::int64_t steps = 0;
  std::int64_t stolen = 0;  ///< of these tasks, taken from another station
  double flops = 0;
};

/// What the first job of a runtime waited for, in seconds. Where devices were opened before the call, it did not wait for that.
struct StartUp {
  double load_s = 0;          ///< finding the devices: loading plugin and driver
  double open_s = 0;          ///< opening them: contexts, handles, connections
  double reserve_s = 0;       ///< starting the workers and reserving the memory
  double first_kernel_s = 0;  ///< from the call's entry to the begin of its first kernel; 0: none has run
};

struct JobStatistics {
  std::string routine;  ///< "dgemm"
  index_t m = 0, n = 0, k = 0;
  index_t tile_m = 0, tile_n = 0, tile_k = 0;
  double seconds = 0;   ///< from where its caller entered the call until it returns; of a job without a call, device_s
  double start_s = 0;   ///< of these: the call has waited for devices to start
  double device_s = 0;  ///< of these: from the hand-over to the devices until all results are in host memory
  double flops = 0;
  std::int64_t compulsory_up = 0;  ///< bytes, see DESIGN "compulsory traffic"
  std::int64_t compulsory_down = 0;
  index_t info = 0;                      ///< of a factorization, as LAPACK's
  std::int64_t restarts = 0;             ///< times the job went on after a device failed
  int beside = 0;                        ///< other calls on its devices when it began or ended, on that with most
  double first_kernel_at = 0;            ///< on the clock of device::now_seconds; 0: none has run
  std::optional<StartUp> start_up = {};  ///< of a runtime's first job
  std::vector<DeviceStatistics> devices;

  std::int64_t bytes_up() const;
  std::int64_t bytes_down() const;
  std::int64_t bytes_peer() const;
  std::int64_t bytes_kept() const;
  /// The CPU has computed some of it.
  bool has_cpu_part() const;
};

struct Interval {
  double begin_s = 0;
  double end_s = 0;
};
/// Length of the union of the intervals.
double covered_seconds(std::vector<Interval> intervals);

/// One JSON object, no line break.
std::string to_json(const JobStatistics& job);

}  // namespace tessera::runtime
