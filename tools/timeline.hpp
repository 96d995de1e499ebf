// One call of a trace (TESSERA_TRACE): the operations on each stream of each device, and the shares of its time. Pure;
// `trace.cpp` reads and shows it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::tools {

/// A copy or kernel. Microseconds since the call began.
struct Span {
  double begin_us = 0;
  double end_us = 0;
  std::string name;
};

struct StreamRow {
  std::string name;  ///< "compute 0", "up", ...
  bool computes = false;
  std::vector<Span> spans;  ///< by begin
};

/// Microseconds of a call on one device. Their sum is the length of the call.
struct LostTime {
  double start_up_us = 0;  ///< before the first kernel begins
  double compute_us = 0;   ///< at least one kernel runs
  double waiting_us = 0;   ///< between kernels: waiting for tiles or for tasks
  double tail_us = 0;      ///< after the last kernel: write-back, and waiting for other devices
};

/// The same time as in Fig. 8 of BLASX (Wang et al. 2016).
struct SharesOfTime {
  double compute_us = 0;
  double transfer_us = 0;  ///< a copy runs and no kernel does
  double other_us = 0;
};

struct DeviceRows {
  std::string name;
  std::vector<StreamRow> streams;  ///< those with spans

  LostTime lost_time(double call_us) const;
  SharesOfTime shares(double call_us) const;
};

struct Timeline {
  std::string call;  ///< "dgemm 4096 x 4096 x 4096"
  double length_us = 0;
  std::vector<DeviceRows> devices;  ///< all devices of the trace, including those that were idle in this call
};

/// @param events the array of a trace file
/// @param number of the call from 1; 0: the last one
/// @throws std::runtime_error if there is no such call; nlohmann::json::exception if the file is no trace
Timeline read_timeline(const nlohmann::json& events, std::size_t number);

/// A picture: a row per stream with its copies and kernels, and below it a bar per device with the shares of its time.
std::string draw_svg(const Timeline& timeline);

}  // namespace tessera::tools
