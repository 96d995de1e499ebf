// The statistics of a job, per device. Filled by the job, read when it is complete: by the C API, the verbose line, the
// statistics file and the tools. Their numbers have one list each, for_each_number(), which all of these use.
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

  /// Calls visit(key, member) for each number, in the order in which they are told. @param key in JSON
  template <class Visit>
  static void for_each_number(Visit&& visit) {
    using Self = DeviceStatistics;
    visit("kernel_s", &Self::kernel_s), visit("transfer_s", &Self::transfer_s), visit("other_s", &Self::other_s);
    visit("l1_hits", &Self::l1_hits), visit("l2_hits", &Self::l2_hits), visit("misses", &Self::misses);
    visit("evictions", &Self::evictions), visit("bytes_up", &Self::bytes_up), visit("bytes_down", &Self::bytes_down);
    visit("bytes_peer", &Self::bytes_peer), visit("bytes_kept", &Self::bytes_kept), visit("tasks", &Self::tasks);
    visit("steps", &Self::steps), visit("stolen", &Self::stolen), visit("flops", &Self::flops);
  }
  /// Adds what the same device did in another part of a call.
  void add(const DeviceStatistics& part);
};

/// The waits of a runtime's first job, in seconds. It did not wait for devices that were opened before the call.
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
  std::int64_t compulsory_up = 0;        ///< bytes: each input once up
  std::int64_t compulsory_down = 0;      ///< bytes: each output once down
  std::int64_t fresh_bytes = 0;          ///< of pages of results that were made ahead (devices/fresh_pages.hpp)
  std::int64_t resident_bytes = 0;       ///< of those up, found on the devices; with calls beside it, theirs too
  std::int64_t stayed_bytes = 0;         ///< of those down, that only devices have; likewise
  index_t info = 0;                      ///< of a factorization, as LAPACK's
  std::int64_t restarts = 0;             ///< times the job went on after a device failed
  int beside = 0;                        ///< other calls on its devices when it began or ended, on that with most
  double first_kernel_at = 0;            ///< on the clock of device::now_seconds; 0: none has run
  std::optional<StartUp> start_up = {};  ///< of a runtime's first job
  std::vector<DeviceStatistics> devices;

  /// As that of DeviceStatistics. It leaves out first_kernel_at: a time on the clock says nothing of the call.
  template <class Visit>
  static void for_each_number(Visit&& visit) {
    using Self = JobStatistics;
    visit("m", &Self::m), visit("n", &Self::n), visit("k", &Self::k);
    visit("tile_m", &Self::tile_m), visit("tile_n", &Self::tile_n), visit("tile_k", &Self::tile_k);
    visit("seconds", &Self::seconds), visit("start_s", &Self::start_s), visit("device_s", &Self::device_s);
    visit("flops", &Self::flops), visit("compulsory_up", &Self::compulsory_up);
    visit("compulsory_down", &Self::compulsory_down), visit("fresh_bytes", &Self::fresh_bytes);
    visit("resident_bytes", &Self::resident_bytes), visit("stayed_bytes", &Self::stayed_bytes);
    visit("info", &Self::info), visit("restarts", &Self::restarts), visit("beside", &Self::beside);
  }

  /// Adds what a part of a call has done.
  void add(const JobStatistics& part);
  /// All devices together.
  DeviceStatistics total() const;
  std::int64_t bytes_up() const { return total().bytes_up; }
  std::int64_t bytes_down() const { return total().bytes_down; }
  std::int64_t bytes_peer() const { return total().bytes_peer; }
  std::int64_t bytes_kept() const { return total().bytes_kept; }
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
