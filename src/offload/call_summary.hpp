// Counts the calls of this process: how many of each routine, type and size ran where, how long they took,
// and why. TESSERA_SUMMARY asks for it; it is printed when the process exits normally.
//
// One per process, made by the first context that is asked for one; its setting names the place. Recording takes no lock and
// allocates nothing, so that it works in any thread, in a child after fork, and while another thread runs the exit handler.
// A child starts from zero. The handler is registered with atexit() when the first context is made, hence it runs for exit()
// and a return from main, not for _exit(), quick_exit() or a signal.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "calls/work.hpp"
#include "offload/policy.hpp"

namespace tessera::offload {

class CallSummary {
 public:
  /// The process's, which is never destroyed. @param file taken from the first caller: appended to at exit; empty: standard error
  static CallSummary& of_process(const std::string& file);

  explicit CallSummary(std::string file);
  CallSummary(const CallSummary&) = delete;
  CallSummary& operator=(const CallSummary&) = delete;

  /// The time of a call, as its caller sees it.
  struct Took {
    double seconds = 0;
    double start_s = 0;  ///< of these: waiting for devices to start
  };
  /// A call has returned. A batch counts as so many calls of its mean volume, with one reason.
  void record(const Work& work, const Decision& decision, const Took& took) noexcept;

  /// Everything back to zero, and the clock starts anew. Async-signal-safe.
  void clear() noexcept;

  /// The report, lines with "tessera: " in front; empty if there was no call. Calls that end while it is made may be counted in part.
  std::string text() const;
  /// Writes the report where it was asked for.
  void print() const noexcept;

 private:
  /// By the side of the cube of the same volume: class c has sides from 2^c to 2^(c+1) - 1.
  static constexpr int size_classes = 21;
  static int size_class_of(index_t volume);

  /// Relaxed everywhere: the counters are read when the calls are over, or as they happen to be.
  struct Counter {
    std::atomic<std::uint64_t> calls;
    std::atomic<std::uint64_t> nanoseconds;
    std::atomic<double> flops;
  };
  enum Place : std::uint8_t { on_devices, on_cpu, places };
  struct Sum {
    std::uint64_t calls = 0;
    double seconds = 0;
    double flops = 0;
    void add(const Counter& counter);
    void add(const Sum& other);
  };

  static_assert(std::atomic<double>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);
  std::string file_;
  std::atomic<std::int64_t> begin_ns_;
  /// [routine][type][size class][place]
  std::array<std::array<std::array<std::array<Counter, places>, size_classes>, 4>, routine_count> counters_;
  std::array<std::atomic<std::uint64_t>, reason_count> reasons_;
  std::atomic<std::uint64_t> start_ns_;  ///< waited for devices to start, by all calls
};

}  // namespace tessera::offload
