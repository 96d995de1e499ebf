// The time of one call as its caller sees it: from the moment in which a symbol, or a function of an API, is entered.
// All reports use this clock. The speeds of the CPU and of devices are measured where they compute.
#pragma once

#include "runtime/call_begin.hpp"

namespace tessera::offload {

class CallTime {
 public:
  /// Has not begun: a call that nobody asks about looks at no clock.
  CallTime() = default;
  /// @param entered_s on the clock of device::now_seconds(); 0: as above
  explicit CallTime(double entered_s) : entered_s_(entered_s) {}
  static CallTime from_now() { return CallTime(device::now_seconds()); }

  /// Begins now, unless it has begun.
  void begin() {
    if (entered_s_ <= 0) entered_s_ = device::now_seconds();
  }
  double entered_s() const { return entered_s_; }
  /// Since it began.
  double seconds() const { return device::now_seconds() - entered_s_; }

  /// It has waited so long for devices to start.
  void add_start(double seconds) { start_s_ += seconds; }
  double start_s() const { return start_s_; }

 private:
  double entered_s_ = 0;
  double start_s_ = 0;
};

}  // namespace tessera::offload
