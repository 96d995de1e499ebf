// How a context comes by its devices: a look that costs nothing, then opening them, by a call that waits for it or in
// the background.
//
// The look reads what the kernel lists and what was kept of this machine. It loads no driver, so a child that is forked
// afterwards may use devices. They are opened once, as many as can be. If none can, calls ask again later, each time
// twice as much later, and the background tries while they are computed by the CPU: another process may have filled a
// GPU. Whoever begins makes this process their owner: its children never touch them, not even to close them, and
// neither does a process that has begun to end. Calls are decided without a lock.
//
// Beside calls of a BLAS that uses all processors, opening takes twice as long, and delays these calls by half of what
// waiting for it costs (docs/offload.md). So the background waits for a free processor.
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

#include "blas_api/calibration_file.hpp"
#include "blas_api/policy.hpp"
#include "core/config.hpp"
#include "kernels/backend.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "runtime/runtime.hpp"

namespace tessera::api {

/// What is known of the devices. Never changed once it has been handed out.
struct Outlook {
  bool possible = true;                 ///< false: there is no sign of a device
  Rates rates;                          ///< measured here before, else as devices say, else a guess
  std::vector<int> ordinals;            ///< of the open devices
  int sharers = 1;                      ///< processes on this host that use these devices
  int copy_threads = 0;                 ///< of each device
  std::optional<CalibrationFile> file;  ///< where what is learnt of the machine is kept; nothing: it is not kept
  MachineRecord record;                 ///< what was kept
};

class DeviceStart {
 public:
  enum class Stage : std::uint8_t { closed, open, failed };

  /// What the background asks the context for.
  struct Context {
    std::function<std::shared_ptr<const kernels::CpuBlas>()> cpu_blas;  ///< for host devices; may throw NotAvailable
    runtime::HostCompute compute;                                       ///< what the CPU does of a job
    std::function<bool()> is_quiet;               ///< a job has run, and for a moment nobody has called
    std::function<bool()> uses_cpu;               ///< the CPU BLAS is computing a call of some size
    std::function<void(MachineRecord&)> add_cpu;  ///< what has been learnt of the CPU BLAS
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
  const Outlook& outlook();
  /// The background is opening the devices.
  bool is_opened_in_background() const;
  /// What is still expected of the time that opening takes; 0 once that is over.
  double until_open_s();
  /// Why devices must not be touched: by a child of their owner, or while the process ends.
  std::optional<Reason> taboo() const;

  /// Opens the devices, or waits for who does, at most `patience_s`. Afterwards they are open, have failed or are
  /// taboo, or the time is over.
  void open(const Context& context, double patience_s) { open(context, patience_s, false); }

  enum class Haste : std::uint8_t {
    at_once,      ///< and their kernels are loaded
    if_free,      ///< as soon as a processor is free
    if_used_ever  ///< only what follows
  };
  /// Starts the thread that opens the devices. When they are open it keeps what is learnt of the machine, and in a
  /// pause between calls it measures what nobody has measured yet. Only the first call counts.
  void attend(Context context, Haste haste);

  /// After a failure: has the background try again when the time has come. @pre stage() is failed
  void try_again(const std::function<Context()>& context);

  /// The open devices; nullptr if they are not open or none works any more.
  runtime::Runtime* runtime() const;
  /// Measures the open devices and keeps their rates, unless they are known. For who has time to wait. Tells nobody of
  /// failure.
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

  void open(const Context& context, double patience_s, bool in_background);
  Outlook look() const;
  std::string version_of_driver() const;
  DeviceShare choose_devices(std::vector<device::DeviceInfo>& devices) const;
  int copy_threads_of(const std::vector<device::DeviceInfo>& devices) const;
  Outlook outlook_of(const std::vector<device::DeviceInfo>& devices, int sharers, int copy_threads) const;
  Outlook outlook_of(std::vector<device::DeviceInfo> devices) const;
  const Outlook& publish(Outlook outlook, std::size_t place);
  void open_here(const Context& context, bool in_background);
  void find_and_open(const Context& context);
  void open_backend(const Context& context);
  void remember_failure();
  const Failure& last_failure() const { return *failure_.load(std::memory_order_acquire); }
  bool await_next_attempt();
  void serve(const Context& context, Haste haste);
  bool await_free_processor();
  void keep(const std::function<void(MachineRecord&)>& change);
  void keep_costs(const Context& context);
  void measure_in_pauses(const Context& context);
  bool pause(std::chrono::milliseconds time);

  const Config& config_;

  /// The process that began to open devices, see process::identity(); 0: none yet. Set before open_mutex_ is first
  /// taken, so that a child, in which that mutex may stay locked for ever, knows not to wait for it. Relaxed: a child
  /// has a copy of the memory as it was, and within one process only the value itself counts.
  std::atomic<std::uint64_t> owner_ = 0;
  std::timed_mutex open_mutex_;  ///< held to open
  /// Relaxed, for estimates only: when somebody began to. 0: nobody has.
  std::atomic<double> begun_at_s_ = 0;
  std::atomic<bool> in_background_ = false;  ///< it is the background that did
  /// Stored, with release, when what belongs to the stage is written, which is never written again. So an acquire load
  /// is enough to read that. From failed it goes to open at most.
  std::atomic<Stage> stage_ = Stage::closed;

  std::atomic<const Outlook*> outlook_ = nullptr;          ///< as stage_
  std::array<std::atomic<const Outlook*>, 2> outlooks_{};  ///< of the look, of the open devices
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<runtime::Runtime> runtime_;
  double load_s_ = 0;
  double open_s_ = 0;
  bool beside_cpu_ = false;                               ///< the CPU BLAS was at work meanwhile
  std::atomic<const Failure*> failure_ = nullptr;         ///< the last one
  std::vector<std::unique_ptr<const Failure>> failures_;  ///< all, since somebody may still read one; of who opens
  std::atomic<bool> wanted_again_ = false;                ///< a call would use the devices
  std::atomic<bool> measured_ = false;                    ///< or somebody is about to

  /// What the thread in the background shares with who destroys this object. The thread may wait for the loader, whose
  /// lock the destroying thread may hold: until then it knows nothing but this.
  struct Attendant {
    std::mutex mutex;  ///< guards what follows
    std::condition_variable changed;
    bool begun = false;     ///< the thread uses the object from now on
    bool stopping = false;  ///< it is to end, or not to begin
    bool ended = false;
  };
  /// In which process the thread exists; 0: nobody has started it. Relaxed: who sets it starts the thread.
  std::atomic<std::uint64_t> attended_in_ = 0;
  std::shared_ptr<Attendant> attendant_;
  std::atomic<Attendant*> attending_ = nullptr;  ///< the same, for who does not know whether it is there yet
};

}  // namespace tessera::api
