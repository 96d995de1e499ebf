// What the calls of a context have shown so far: how fast the CPU BLAS is, what devices take over what the model
// expects, what has been lost because they are not open; and which calls are under way. The decision (policy.hpp) reads
// it, Context writes it.
//
// Thread-safe without locks. Relaxed everywhere: each number is by itself.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>

#include "blas_api/batch_policy.hpp"
#include "blas_api/cpu_speed.hpp"
#include "blas_api/device_bias.hpp"
#include "blas_api/lapack_policy.hpp"
#include "blas_api/policy.hpp"
#include "core/level3.hpp"
#include "core/process.hpp"

namespace tessera::api {

class CallHistory {
 public:
  explicit CallHistory(int processors) : cpu_speed_(processors) {}

  /// Adds to `now` what is known here. @param weighed the speed of the CPU matters
  void describe(const Level3& call, bool weighed, Situation& now) const;
  /// @param threads that batches may have on the CPU
  void describe(const BatchDemand& batch, int threads, Situation& now) const;
  void describe(const LapackDemand& call, bool weighed, Situation& now) const;

  /// The product that should be timed on the CPU before the call is decided; nothing if what is known will do.
  /// @param devices_s that the call is expected to take on devices, their start included
  std::optional<Level3> wanted_probe(const Level3& call, double devices_s) const;
  /// Likewise, until such a call has been seen on the CPU.
  std::optional<Level3> wanted_probe(const LapackDemand& call, double devices_s) const;
  /// Times a product of these sizes. @param compute on the CPU BLAS; throws NotAvailable if there is none
  void time_on_cpu(const Level3& probe, const std::function<void(const Level3&)>& compute);

  /// A call that the CPU BLAS is computing, while it lives.
  class OnCpu {
   public:
    explicit OnCpu(CallHistory& history);
    ~OnCpu();
    OnCpu(const OnCpu&) = delete;
    OnCpu& operator=(const OnCpu&) = delete;
    /// It has taken so long. What it took beside calls on devices counts only where nothing is known of such calls.
    /// @param verdict by which it is there
    void record(const Level3& call, index_t volume, const Verdict& verdict, double seconds, bool devices_are_open);
    void record(const BatchDemand& batch, int threads, const Verdict& verdict, double seconds, bool devices_are_open);

   private:
    bool was_alone() const;
    /// Of the time that it took, with others beside it: what it would have taken by itself.
    double alone_s(double seconds) const;

    CallHistory& history_;
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
    /// It has ended. What it took beside a call on the CPU, or on its devices, says little of what it takes by itself.
    void record(const Level3& call, index_t volume, const Verdict& verdict, const Took& took);
    void record(const BatchDemand& batch, const Verdict& verdict, double seconds);
    void record(const LapackDemand& call, const Verdict& verdict, const Took& took);
    /// What is left of it are calls of their own, which do not wait for it. @pre not called before
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

  /// The CPU's LAPACK has taken so long. It is no call on the CPU (OnCpu): it may make such calls itself, or calls on
  /// devices, which are counted there.
  void note_on_cpu(const LapackDemand& call, const Verdict& verdict, double seconds, bool devices_are_open);

  /// Estimated seconds until the calls that are on the devices or wait for them have ended: what they take one by one,
  /// over how many of them devices have done at once so far.
  double backlog_s() const {
    return 1e-9 * static_cast<double>(backlog_ns_.load(std::memory_order_relaxed)) /
           std::max(calls_at_once_.load(std::memory_order_relaxed), 1.0);
  }
  int device_calls() const { return device_calls_.load(std::memory_order_relaxed); }
  int cpu_calls() const { return cpu_calls_.load(std::memory_order_relaxed); }
  /// A job has run on devices, and since a fifth of a second no call of some size has been under way.
  bool is_quiet() const;

  /// Whether the CPU should help with a call of this volume on devices: unless calls were no quicker with its help. What
  /// it does for itself it takes from the threads that carry the operands, and a task that it begins late all wait for.
  bool should_help(index_t volume) const;

  const CpuSpeed& cpu_speed() const { return cpu_speed_; }
  CpuSpeed& cpu_speed() { return cpu_speed_; }
  const BatchSpeed& batch_speed() const { return batch_speed_; }
  /// Such a batch would take so long on the CPU, where batches may have so many threads.
  void note_batch_on_cpu(const BatchDemand& batch, double seconds, int threads) {
    batch_speed_.record(batch, seconds, threads);
  }

 private:
  void note_forgone(const Verdict& verdict, double seconds, bool devices_are_open);
  void note_calls_at_once(double calls);
  /// The calls of a parent's other threads are not under way in its child.
  void begin_anew_in_child();

  CpuSpeed cpu_speed_;
  DeviceBias device_bias_;
  DeviceBias helped_bias_;                                ///< of calls with which the CPU has helped
  BatchSpeed batch_speed_;                                ///< of the CPU
  std::array<DeviceBias, any_routine_count> batch_bias_;  ///< by the mean volume of the problems
  LapackSpeed lapack_speed_;                              ///< of the CPU
  std::array<DeviceBias, any_routine_count> lapack_bias_;
  std::atomic<double> forgone_s_ = 0;  ///< by calls that the CPU answered although open devices would have been quicker
  std::atomic<int> forgone_calls_ = 0;        ///< so many
  std::atomic<std::int64_t> backlog_ns_ = 0;  ///< whole numbers, so that it comes back to 0
  std::atomic<double> calls_at_once_ = 1;     ///< a mean of the last ones that were not alone
  std::atomic<int> device_calls_ = 0;
  std::atomic<int> cpu_calls_ = 0;                            ///< small ones not counted
  std::atomic<std::uint64_t> process_ = process::identity();  ///< whose calls are counted
  std::atomic<bool> has_used_devices_ = false;
  std::atomic<double> last_end_s_ = 0;  ///< of a call of some size
};

}  // namespace tessera::api
