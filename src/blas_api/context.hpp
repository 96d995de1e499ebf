// One context: configuration, offload policy, CPU BLAS, and the runtime, opened on the first call worth offloading. The C API
// makes contexts; the BLAS symbols share one that is never destroyed.
//
// Invariants: the constructor touches no device and loads nothing; devices are opened at most once, and a failure to open
// them is remembered; a child of the process that began to open them never touches them, not even to close them, and neither does a
// process that has begun to end. What stays on the CPU takes no lock, and does not wait for devices to be opened.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "blas_api/call_summary.hpp"
#include "blas_api/face.hpp"
#include "blas_api/policy.hpp"
#include "core/config.hpp"
#include "core/level3.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "runtime/runtime.hpp"
#include "runtime/statistics.hpp"

namespace tessera::api {

/// What happens to a call whose devices cannot be opened or cannot hold it: the C API reports that to its caller, the BLAS
/// symbols, which have no way to, let the CPU BLAS answer.
enum class Fallback : std::uint8_t { report, cpu_blas };

class Context {
 public:
  /// Touches no device.
  explicit Context(Config config);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Config& config() const { return config_; }

  /// The runtime, opened if need be; nullptr if the configuration resolves to no devices, or in a child after fork. Thread-safe.
  /// @throws NotAvailable, OutOfDeviceMemory if devices that were asked for by name cannot be opened
  /// @param face behind which a CPU BLAS finishes what devices have failed to do; null: the own API
  runtime::Runtime* runtime(Face* face = nullptr);

  /// The one behind `face` (null: the own API), opened at the first call. A wrong TESSERA_CPU_BLAS is reported on standard error,
  /// and the default used. Thread-safe. @throws NotAvailable
  std::shared_ptr<const kernels::CpuBlas> cpu_blas(Face* face = nullptr);

  /// Takes the early outs, decides, runs. Thread-safe. @pre arguments are checked
  /// @param face through which the call came; null: the own API
  /// @return statistics if it ran on devices
  /// @throws what routines::run throws; with Fallback::cpu_blas only DeviceLost and InternalError
  std::optional<runtime::JobStatistics> run(const Level3& call, Fallback fallback = Fallback::report,
                                            Face* face = nullptr);

  /// Estimated seconds of the calls that are on the devices or wait for them.
  double backlog_s() const;

  /// Opens the CPU BLAS and the devices, if there are any, and has each of these run each kernel once, so that the first large call finds
  /// everything loaded. What cannot be opened is left as it is. Thread-safe; blocks for as long as it takes.
  /// @throws as runtime(), and as runtime::Runtime::warm_up()
  void warm_up(Face* face = nullptr);

  /// Measures the devices and keeps their rates for later contexts and processes. @return the file they are in, and the rates
  /// @throws NotAvailable if there are no devices, or no place for the file; as runtime()
  std::pair<std::string, runtime::Calibration> calibrate();

  /// One line per device, or one that says that the CPU BLAS is used and why. Opens the devices. @throws as runtime()
  std::string describe_devices();

 private:
  struct State;

  /// The opened runtime if `call` is to run on it, else nullptr. @param verdict receives the decision
  runtime::Runtime* devices_for(const Level3& call, Fallback fallback, Face& face, Verdict& verdict);
  /// Whether devices may be considered at all. @param verdict receives why not
  bool may_use_devices(Verdict& verdict) const;
  /// Finds out what devices there are, or, if that is known, opens them.
  /// @return false where devices must not be touched, with the reason in `verdict` @pre open_mutex is held
  bool advance(Face& face, Verdict& verdict);
  /// @pre the devices are open or have failed
  runtime::Runtime* opened(Fallback fallback, Verdict& verdict);
  Situation situation(const Level3& call) const;
  /// Times a product of the type and sizes of `probe`, so that the first large calls are not decided blindly.
  void measure_cpu(const Level3& probe, Face& face);

  /// What run() does for calls that are not small, or when somebody watches.
  std::optional<runtime::JobStatistics> run_weighed(const Level3& call, index_t volume, Fallback fallback, Face& face,
                                                    Verdict verdict);
  runtime::CpuHelp cpu_help(const Level3& call, const Verdict& verdict) const;
  /// @param arrival_s when the call came
  runtime::JobStatistics run_on_devices(runtime::Runtime& runtime, const Level3& call, const Verdict& verdict,
                                        double arrival_s);
  void compute_on_cpu(const Level3& call, Fallback fallback, Face& face);
  std::shared_ptr<const kernels::CpuBlas> open_cpu_blas(const Face& face);
  /// Has another thread do warm_up(), once. Calls meanwhile stay on the CPU if that is sooner.
  void warm_up_in_background(Face& face);

  Config config_;
  CallSummary* summary_;  ///< nullptr: nobody wants one
  bool watched_;          ///< verbose, or a summary is wanted
  bool learns_;           ///< some call may be weighed: the speed of the CPU matters
  std::unique_ptr<State> state_;
};

/// The context of all BLAS symbols: made from the environment at the first call, never destroyed.
Context& shared_context();

}  // namespace tessera::api
