// How a context comes by its devices: a look that costs nothing, then opening them, by a call that waits for it or in
// the background.
//
// The look reads the kernel's list and the record of this machine. It loads no driver, so a child that is forked
// afterwards may use devices. They are opened once, as many as can be. If none can (another process may have filled a
// GPU), calls ask again later, each time twice as much later. The background tries then, while the CPU computes the
// calls. The process that begins to open them becomes their owner: its children never touch them, not even to close
// them, and neither does a process that has begun to end. Calls are decided without a lock.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/config.hpp"
#include "kernels/backend.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "offload/calibration_file.hpp"
#include "offload/policy.hpp"
#include "runtime/runtime.hpp"

namespace tessera::offload {

/// The known facts of the devices. Never changed once they have been handed out.
struct KnownDevices {
  bool possible = true;                 ///< false: there is no sign of a device
  Rates rates;                          ///< measured here before, else as devices say, else a guess
  std::vector<int> ordinals;            ///< of the open devices
  int sharers = 1;                      ///< processes on this host that use these devices
  int copy_threads = 0;                 ///< of each device
  std::optional<CalibrationFile> file;  ///< where what is learnt of the machine is kept; nothing: it is not kept
  MachineRecord record;                 ///< the record that was kept
};

class DeviceStart {
 public:
  enum class Stage : std::uint8_t { closed, open, failed };

  /// The functions of the context that the background calls.
  struct Context {
    std::function<std::shared_ptr<const kernels::CpuBlas>()> cpu_blas;  ///< for host devices; may throw NotAvailable
    runtime::HostCompute compute;                                       ///< computes the CPU's part of a job
    std::function<bool()> is_quiet;  ///< a job has run, and for a moment nobody has called
  };

  /// Touches nothing. @param config outlives this
  explicit DeviceStart(const Config& config) : config_(config) {}
  /// Waits for what runs in the background, except in a child.
  ~DeviceStart();
  DeviceStart(const DeviceStart&) = delete;
  DeviceStart& operator=(const DeviceStart&) = delete;

  // All of the following are thread-safe.

  Stage stage() const { return stage_.load(std::memory_order_acquire); }
  /// Looks if nobody has.
  const KnownDevices& known_devices();
  /// Seconds that opening is still expected to take; 0 once it is over.
  double until_open_s();
  bool is_opening() const { return stage() == Stage::closed && begun_at_s_.load(std::memory_order_relaxed) > 0; }
  /// Why devices must not be touched: by a child of their owner, or while the process ends.
  std::optional<Reason> why_forbidden() const;

  /// Opens the devices, or waits for the thread that does, at most `patience_s`. Afterwards
  /// they are open, have failed or are forbidden, or the time is over.
  void open(const Context& context, double patience_s) { open(context, patience_s, First::opens); }

  /// Starts the thread that keeps what is learnt of the machine when devices are open. In a pause between calls it
  /// measures what nobody has measured yet. Only the first call counts.
  /// @param opens it also opens the devices and loads their kernels
  void serve_in_background(Context context, bool opens);

  /// After a failure: has the background try again when the time has come. @pre stage() is failed
  void try_again(const std::function<Context()>& context);

  /// The open devices; nullptr if they are not open or none works any more.
  runtime::Runtime* runtime() const;
  /// The same, also if no device works any more.
  runtime::Runtime* opened() const;
  /// Measures the open devices and keeps their rates, unless they are known. For
  /// callers that have time to wait. The caller is not told of a failure.
  void measure();
  /// The same, whatever is known. @return the file that they are in, and the rates
  /// @throws NotAvailable if no device works or there is no place for the file; as runtime::Runtime::calibrate()
  std::pair<std::string, runtime::Calibration> calibrate();

  /// @pre stage() is failed
  [[noreturn]] void rethrow_failure() const { std::rethrow_exception(last_failure().error); }
  const std::string& failure_text() const { return last_failure().text; }
  /// Seconds for finding the devices (plugin and driver), and for opening them. @pre stage() is open
  double load_s() const { return load_s_; }
  double open_s() const { return open_s_; }

 private:
  /// Why no device could be opened. Never changed once it can be seen.
  struct Failure {
    std::exception_ptr error;
    std::string text;
    double until_s = 0;     ///< so long nobody tries again
    double patience_s = 0;  ///< since the failure
  };
  static constexpr double first_patience_s = 1;
  static constexpr double longest_patience_s = 300;

  /// Whether kernels are loaded before anybody sees the devices open: calls that nobody holds up stay on the CPU
  /// meanwhile.
  enum class First : std::uint8_t { opens, loads_kernels };
  void open(const Context& context, double patience_s, First first);

  KnownDevices look() const;
  std::string version_of_driver() const;
  DeviceShare choose_devices(std::vector<device::DeviceInfo>& devices) const;
  int copy_threads_of(const std::vector<device::DeviceInfo>& devices) const;
  KnownDevices known_of(const std::vector<device::DeviceInfo>& devices, int sharers, int copy_threads) const;
  KnownDevices known_of(std::vector<device::DeviceInfo> devices) const;
  const KnownDevices& publish(KnownDevices known, std::size_t place);
  void open_here(const Context& context, First first = First::opens);
  void find_and_open(const Context& context);
  void open_backend(const Context& context);
  void remember_failure();
  const Failure& last_failure() const { return *failure_.load(std::memory_order_acquire); }
  bool await_next_attempt();
  void serve(const Context& context, bool opens);
  void keep(const std::function<void(MachineRecord&)>& change);
  void keep_start_up();
  void measure_in_pauses(const Context& context);
  bool pause(std::chrono::milliseconds time);

  const Config& config_;

  /// The process that began to open devices, see process::identity(); 0: none yet. Set before open_mutex_ is first
  /// taken, so that a child, in which that mutex may stay locked for ever, knows not to wait for it. Relaxed: a child
  /// has a copy of the memory as it was, and within one process only the value itself counts.
  std::atomic<std::uint64_t> owner_ = 0;
  std::timed_mutex open_mutex_;  ///< held to open
  /// When somebody began to open them; 0: nobody has. Relaxed, for estimates only.
  std::atomic<double> begun_at_s_ = 0;
  /// Stored with release when the data of the stage are written. These are never written again, so
  /// that an acquire load is enough to read them. The stage leaves failed only for open.
  std::atomic<Stage> stage_ = Stage::closed;

  std::atomic<const KnownDevices*> known_ = nullptr;              ///< as stage_
  std::array<std::atomic<const KnownDevices*>, 2> kept_known_{};  ///< of the look, of the open devices
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<runtime::Runtime> runtime_;
  double load_s_ = 0;
  double open_s_ = 0;
  std::atomic<const Failure*> failure_ = nullptr;         ///< the last one
  std::vector<std::unique_ptr<const Failure>> failures_;  ///< all: somebody may still read one; of the opening thread
  std::atomic<bool> wanted_again_ = false;                ///< a call would use the devices
  std::atomic<bool> measured_ = false;                    ///< or somebody is about to

  /// State that the background thread shares with the thread that destroys this object. The former may wait for
  /// the loader's lock, which the latter may hold; until it has begun it uses nothing but this.
  struct BackgroundThread {
    std::mutex mutex;  ///< guards what follows
    std::condition_variable changed;
    bool begun = false;     ///< the thread uses the object from now on
    bool stopping = false;  ///< it is to end, or not to begin
    bool ended = false;
  };
  /// The process in which the thread exists; 0: nobody has started it. Relaxed: its setter also starts the thread.
  std::atomic<std::uint64_t> background_in_ = 0;
  std::shared_ptr<BackgroundThread> background_;
  std::atomic<BackgroundThread*> background_seen_ =
      nullptr;  ///< the same, for threads that do not know whether it is there yet
};

}  // namespace tessera::offload
