// When the call came whose jobs the calling thread runs, for what is told of them.
#pragma once

#include <utility>

#include "device/device.hpp"

namespace tessera::runtime {

/// While it lives, jobs of this thread are told of as begun then. May be nested: a part of a call begins later than the whole.
class CallBegin {
 public:
  /// @param at_s on the clock of device::now_seconds()
  explicit CallBegin(double at_s) : outer_s_(std::exchange(of_thread(), at_s)) {}
  ~CallBegin() { of_thread() = outer_s_; }
  CallBegin(const CallBegin&) = delete;
  CallBegin& operator=(const CallBegin&) = delete;

  /// @param otherwise where nobody has said
  static double or_else(double otherwise) { return of_thread() > 0 ? of_thread() : otherwise; }

 private:
  static double& of_thread() {
    static thread_local double at_s = 0;
    return at_s;
  }

  double outer_s_;
};

}  // namespace tessera::runtime
