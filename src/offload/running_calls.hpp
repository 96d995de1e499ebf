// The calls of this process that are under way, for a program that shows its user what it is waiting for. Small calls are
// not among them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/progress.hpp"

namespace tessera::offload {

/// A call under way, at some moment.
struct RunningCallState {
  std::string what;  ///< the routine, its letters and sizes
  double seconds = 0;
  double flops = 0;
  std::optional<double> done;  ///< the part of its work, from 0 to 1; nothing where that is not known
  bool on_devices = false;
  bool is_part = false;  ///< of another call, which is under way, too
  int thread = 0;        ///< that made it, by the kernel's number
};

/// In the list of running calls while it lives.
class RunningCall {
 public:
  /// @param text gives the call in words; on any thread, and during this object's life only
  /// @param begin_s on the clock of device::now_seconds()
  RunningCall(std::function<std::string()> text, double begin_s, double flops, bool on_devices, bool is_part);
  ~RunningCall();
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

 private:
  friend std::vector<RunningCallState> running_calls();

  const std::function<std::string()> text_;
  const double begin_s_, flops_;
  const bool on_devices_, is_part_;
  const int thread_;
  runtime::Progress progress_;
  const runtime::Progress::OfThread tells_{progress_};
  struct List;
  static List& list();
  List& list_;
  RunningCall* before_ = nullptr;  // as next_, guarded by the list's mutex
  RunningCall* next_ = nullptr;
};

/// Those that are under way now, the last one to begin first. Thread-safe. @throws std::bad_alloc
std::vector<RunningCallState> running_calls();

/// As a JSON array (tessera_running_calls in tessera/tessera.h).
std::string to_json(const std::vector<RunningCallState>& calls);

}  // namespace tessera::offload
