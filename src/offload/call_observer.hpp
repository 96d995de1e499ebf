// The observer of this process's calls, which the own API sets: a program that shows its user what ran where.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::offload {

/// A call that has returned, as its caller sees it.
struct ObservedCall {
  std::string what;   ///< the routine, its letters and sizes
  std::string where;  ///< devices, or what the CPU computed it with
  std::string why;    ///< the decision in words
  double seconds = 0;
  double start_s = 0;  ///< of these, waiting for devices to start
  double flops = 0;
  std::int64_t bytes_up = 0, bytes_down = 0;
  bool on_devices = false;
  bool is_part = false;  ///< of a call that is told of as a whole
};

/// A function of the program and its data, and what brings calls into the form that it takes. One that has been set stays: calls
/// in flight may still use it.
struct CallObserver {
  using Function = void (*)();
  void (*tell)(const ObservedCall& call, Function function, void* data) = nullptr;
  Function function = nullptr;
  void* data = nullptr;
  bool operator==(const CallObserver&) const = default;
};

/// Sets the observer for calls that end from now on; nullptr as the function: none. Thread-safe. @throws std::bad_alloc
void observe_calls(const CallObserver& observer);

/// nullptr: there is none. Costs one load.
const CallObserver* call_observer() noexcept;

}  // namespace tessera::offload
