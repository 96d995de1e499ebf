// One job as TESSERA_STATS and tessera_last_job_json() describe it (docs/statistics.md), read back for people.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::tools {

struct DeviceRecord {
  std::string device;
  double kernel_s = 0, transfer_s = 0, other_s = 0;
  std::int64_t l1_hits = 0, l2_hits = 0, misses = 0, evictions = 0;
  std::int64_t bytes_up = 0, bytes_down = 0, bytes_peer = 0;
  std::int64_t tasks = 0, steps = 0, stolen = 0;
  double flops = 0;

  void add(const DeviceRecord& other);
};

struct JobRecord {
  std::string routine;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t tile_m = 0, tile_n = 0, tile_k = 0;
  double seconds = 0, flops = 0;
  std::int64_t compulsory_up = 0, compulsory_down = 0;
  std::int64_t restarts = 0;
  std::vector<DeviceRecord> devices;  ///< empty: the CPU BLAS answered

  /// All devices together.
  DeviceRecord total() const;
};

/// Fields that are missing count as 0, so that files of older and newer versions can be read.
/// @throws nlohmann::json::exception if a field has the wrong type
JobRecord job_from_json(const nlohmann::ordered_json& json);

/// Table with one row per device and a last one for the sum.
std::string device_table(const std::vector<DeviceRecord>& devices);

}  // namespace tessera::tools
