// The history of a context's calls: how fast the CPU BLAS is, how much longer devices take
// than the model expects, how much time was lost because they are not open, and which calls
// are under way. The decision (policy.hpp) reads it, Context writes it.
//
// Thread-safe without locks. Relaxed everywhere, since no number depends on another one.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>

#include "calls/work.hpp"
#include "core/process.hpp"
#include "offload/cpu_speed.hpp"
#include "offload/learnt_speed.hpp"
#include "offload/policy.hpp"

namespace tessera::offload {

class CallHistory {
 public:
  explicit CallHistory(int processors) : cpu_speed_(processors) {}

  /// Adds to `now` the facts that are known here. @param weighed the speed of the CPU matters
  /// @param threads that batches may have on the CPU
  void describe(const Work& work, bool weighed, int threads, Conditions& now) const;

  /// Times a product of these sizes. @param compute on the CPU BLAS; throws NotAvailable if there is none
  void time_on_cpu(const Level3& probe, const std::function<void(const Level3&)>& compute);

  /// A call that the CPU BLAS is computing, while it lives.
  class OnCpu {
   public:
    /// @param of LAPACK's are not counted: they may make calls on the CPU or on devices themselves, which are
    explicit OnCpu(CallHistory& history, Work::Of of = Work::Of::product);
    ~OnCpu();
    OnCpu(const OnCpu&) = delete;
    OnCpu& operator=(const OnCpu&) = delete;
    /// It has taken so long. The time beside calls on devices counts only where nothing is known of such calls.
    /// @param decision by which it is there @param threads that batches may have
    void record(const Work& work, const Decision& decision, double seconds, bool devices_are_open, int threads = 1);

   private:
    bool was_alone() const;
    /// The seconds that it would have taken by itself, of those that it took beside other calls.
    double alone_s(double seconds) const;

    CallHistory& history_;
    bool counts_;
    int others_at_begin_ = 0;
    bool began_beside_devices_ = false;
  };

  /// A call that is on the devices or waits for them, while it lives.
  class OnDevices {
   public:
    /// @param seconds expected, without waiting
    OnDevices(CallHistory& history, double seconds);
    ~OnDevices();
    OnDevices(const OnDevices&) = delete;
    OnDevices& operator=(const OnDevices&) = delete;
    struct Took {
      double seconds = 0;         ///< without waiting
      bool helped = false;        ///< the CPU has computed a part of it
      int beside = 0;             ///< other calls that were on its devices then
      double with_waiting_s = 0;  ///< since it came; 0: not known
    };
    /// It has ended. A time beside a call on the CPU, or on its devices, says little of the time of the call alone.
    void record(const Work& work, const Decision& decision, const Took& took);
    /// Ends it early: separate calls do its remaining work, and do not wait for it. @pre not called before
    void leave();

   private:
    bool was_without_cpu() const;
    void note_calls_at_once(const Took& took);

    CallHistory& history_;
    std::int64_t ns_;
    int others_at_begin_ = 0;
    bool began_beside_cpu_ = false;
    bool has_left_ = false;
  };

  /// Estimated seconds until the calls that are on the devices or wait for them have ended: the sum of
  /// their times, divided by the number of calls that devices have computed at once so far.
  double backlog_s() const {
    return 1e-9 * static_cast<double>(backlog_ns_.load(std::memory_order_relaxed)) /
           std::max(calls_at_once_.load(std::memory_order_relaxed), 1.0);
  }
  int device_calls() const { return device_calls_.load(std::memory_order_relaxed); }
  int cpu_calls() const { return cpu_calls_.load(std::memory_order_relaxed); }
  /// A job has run on devices, and since a fifth of a second no call of some size has been under way.
  bool is_quiet() const;

  /// Whether the CPU should help with a call of this volume on devices: unless calls were no quicker with its help. Its
  /// own work takes it from the threads that carry the operands, and all wait for a task that it begins late.
  bool should_help(index_t volume) const;

  const CpuSpeed& cpu_speed() const { return cpu_speed_; }
  CpuSpeed& cpu_speed() { return cpu_speed_; }

 private:
  void note_forgone(const Decision& decision, double seconds, bool devices_are_open);
  void note_calls_at_once(double calls);
  /// Products share one bias. That of a batch is one of its problems' mean volume.
  DeviceBias& bias_of(const Work& work) {
    return biases_[static_cast<std::size_t>(work.of)][work.of == Work::Of::product ? 0 : number_of(work.routine)];
  }
  const DeviceBias& bias_of(const Work& work) const { return const_cast<CallHistory*>(this)->bias_of(work); }
  /// The calls of a parent's other threads are not under way in its child.
  void begin_anew_in_child();

  CpuSpeed cpu_speed_;
  std::array<std::array<DeviceBias, routine_count>, 3> biases_;
  DeviceBias helped_bias_;             ///< of products with which the CPU has helped
  std::atomic<double> forgone_s_ = 0;  ///< by calls that the CPU answered although open devices would have been quicker
  std::atomic<std::int64_t> backlog_ns_ = 0;  ///< whole numbers, so that it comes back to 0
  std::atomic<double> calls_at_once_ = 1;     ///< a mean of the last ones that were not alone
  std::atomic<int> device_calls_ = 0;
  std::atomic<int> cpu_calls_ = 0;                            ///< small ones not counted
  std::atomic<std::uint64_t> process_ = process::identity();  ///< whose calls are counted
  std::atomic<bool> has_used_devices_ = false;
  std::atomic<double> last_end_s_ = 0;  ///< of a call of some size
};

}  // namespace tessera::offload
