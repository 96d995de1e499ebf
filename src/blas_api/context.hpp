// One context: configuration, CPU BLAS, and the runtime, opened when calls are worth it. It asks the policy
// (policy.hpp) about each call and has it computed where that says. The C API makes contexts; the BLAS symbols share
// one that is never destroyed.
//
// Four rooms do the rest: device_start (opening devices), policy (deciding), call_history (what calls have shown),
// call_report (telling).
//
// Invariants: the constructor touches no device and loads nothing. What stays on the CPU takes no lock, and does not
// wait for devices to be opened.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "blas_api/call_history.hpp"
#include "blas_api/call_report.hpp"
#include "blas_api/call_time.hpp"
#include "blas_api/device_start.hpp"
#include "blas_api/face.hpp"
#include "blas_api/policy.hpp"
#include "core/config.hpp"
#include "core/dense_problem.hpp"
#include "core/gemm_batch.hpp"
#include "core/lapack_call.hpp"
#include "core/lapack_problems.hpp"
#include "core/level3.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "runtime/runtime.hpp"
#include "runtime/statistics.hpp"

namespace tessera::api {

/// What happens to a call whose devices cannot be opened or cannot hold it: the C API reports that to its caller, the
/// BLAS symbols, which have no way to, let the CPU BLAS answer.
enum class Fallback : std::uint8_t { report, cpu_blas };

/// The LAPACK that computes what devices do not: for the BLAS symbols the program's own, with the program's arguments.
class CpuLapack {
 public:
  /// Computes the call, whose info it sets. Nothing is thrown by what has begun to write.
  virtual void compute(LapackCall& call) = 0;

 protected:
  ~CpuLapack() = default;
};

/// A problem that one device may solve whole, and what LAPACK tells of it.
struct DenseRun {
  DenseProblem problem;
  index_t info = 0;
  index_t found = 0;  ///< heevr: eigenvalues
};

/// As CpuLapack.
class CpuDense {
 public:
  virtual void compute(DenseRun& run) = 0;

 protected:
  ~CpuDense() = default;
};

class Context {
 public:
  /// Touches no device.
  explicit Context(Config config);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Config& config() const { return config_; }

  /// The runtime, opened if need be; nullptr if the configuration resolves to no devices, or in a child after fork.
  /// Thread-safe.
  /// @throws NotAvailable, OutOfDeviceMemory if devices that were asked for by name cannot be opened
  /// @param face behind which a CPU BLAS finishes what devices have failed to do; null: the own API
  runtime::Runtime* runtime(Face* face = nullptr);

  /// The one behind `face` (null: the own API), opened at the first call. A wrong TESSERA_CPU_BLAS is reported on
  /// standard error, and the default used. Thread-safe. @throws NotAvailable
  std::shared_ptr<const kernels::CpuBlas> cpu_blas(Face* face = nullptr);

  /// Takes the early outs, decides, runs. Thread-safe. @pre arguments are checked
  /// @param face through which the call came; null: the own API
  /// @param time of the call, which has begun when its caller entered the symbol or the function; null: it begins here
  /// @return statistics if it ran on devices
  /// @throws what routines::run throws; with Fallback::cpu_blas only DeviceLost and InternalError
  std::optional<runtime::JobStatistics> run(const Level3& call, Fallback fallback = Fallback::report,
                                            Face* face = nullptr, CallTime* time = nullptr);

  /// The same for a call of LAPACK, of which call.info is set. On devices factors are made as a whole; what solves is
  /// made of interchanges and of Level 3, whose calls are decided one by one. Thread-safe.
  /// @pre sizes are good, and it does something @param cpu nullptr: that of the CPU BLAS behind `face`
  /// @throws as above; after DeviceLost what the call writes is lost
  std::optional<runtime::JobStatistics> run(LapackCall& call, Fallback fallback = Fallback::report,
                                            Face* face = nullptr, CpuLapack* cpu = nullptr, CallTime* time = nullptr);
  /// The same for a problem that one device solves whole, or the CPU. Thread-safe. @pre it is checked, and no size is 0
  /// @param cpu nullptr: the LAPACK of the CPU BLAS behind `face` @throws as above
  std::optional<runtime::JobStatistics> run(DenseRun& run, Fallback fallback = Fallback::report, Face* face = nullptr,
                                            CpuDense* cpu = nullptr, CallTime* time = nullptr);

  /// Has the LAPACK of the CPU BLAS behind `face` compute it; what that lacks is made of products, or is the readable
  /// reference's. @throws NotAvailable with Fallback::report if there is no CPU BLAS; std::bad_alloc
  void compute_on_cpu(LapackCall& call, Fallback fallback, Face* face = nullptr);
  /// The same, of which nothing is made of products; sizes may be 0.
  void compute_on_cpu(DenseRun& run, Fallback fallback = Fallback::report, Face* face = nullptr);

  /// The same for a batch: products that are worth it by themselves run one after the other as calls of their own, all
  /// others as the batch policy says (batch_policy.hpp). Whatever fails, the CPU BLAS answers. Thread-safe.
  /// @param batch is used up @param flops to which those of the batch are added; may be null
  /// @return statistics if the batch ran on devices
  /// @throws the first of what run() throws for large products, when all else has been computed; std::bad_alloc, and
  /// nothing has been touched, not even `batch`
  std::optional<runtime::JobStatistics> run_batch(GemmBatch& batch, Face* face = nullptr, double* flops = nullptr,
                                                  CallTime* time = nullptr);
  /// Of LAPACK's problems, through the own API; all are decided together, but large ones apart from small ones.
  /// Thread-safe. @param batch and @param flops as above
  /// @return likewise @throws DeviceLost if memory of the host ran out; std::bad_alloc, and nothing has been touched
  std::optional<runtime::JobStatistics> run_batch(LapackProblems& batch, double* flops = nullptr,
                                                  CallTime* time = nullptr);

  /// Estimated seconds of the calls that are on the devices or wait for them.
  double backlog_s() const { return history_.backlog_s(); }

  /// Opens the CPU BLAS and the devices, if there are any, and has each of these run each kernel once, so that the
  /// first large call finds everything loaded. What cannot be opened is left as it is. Thread-safe; blocks for as long
  /// as it takes.
  /// @throws as runtime(), and as runtime::Runtime::warm_up()
  void warm_up(Face* face = nullptr);

  /// Measures the devices and keeps their rates for later contexts and processes. @return the file they are in, and the
  /// rates
  /// @throws NotAvailable if there are no devices, or no place for the file; as runtime()
  std::pair<std::string, runtime::Calibration> calibrate();

  /// One line per device, or one that says that the CPU BLAS is used and why. Opens the devices. @throws as runtime()
  std::string describe_devices();

 private:
  /// What is to be decided about: a call or a batch.
  class Weighed {
   public:
    virtual ~Weighed() = default;
    virtual const OffloadRule& rule() const = 0;
    /// The CPU is to answer before anybody has looked for devices.
    virtual bool is_worth_no_look() const = 0;
    virtual Verdict decide_now() = 0;
    /// Measures the CPU where that may change the verdict. @return whether it has: there is to be another one
    virtual bool measures_cpu(const Verdict& verdict) = 0;
  };
  class WeighedCall;
  class WeighedLapack;
  template <class Batch>
  class WeighedBatch;

  /// The opened runtime if it is to run on it, else nullptr. @param verdict receives the decision
  runtime::Runtime* devices_for(Weighed& what, Fallback fallback, Face& face, Verdict& verdict, CallTime& time);
  /// Runs a job, of which nothing is written if it throws NotAvailable, OutOfDeviceMemory or std::bad_alloc.
  using RunJob = std::function<runtime::JobStatistics(runtime::Runtime&)>;
  /// The job, if it has run on devices; else the CPU is to answer. @param verdict receives the decision, and why not
  /// @throws with Fallback::report what devices_for() throws, OutOfDeviceMemory and std::bad_alloc; what `run_job` throws
  /// besides
  std::optional<runtime::JobStatistics> try_devices(Weighed& what, Fallback fallback, Face& face, Verdict& verdict,
                                                    CallTime& time, const RunJob& run_job);
  /// The runtime of devices that are open or have failed to open.
  runtime::Runtime* opened(Fallback fallback, Verdict& verdict) const;
  /// What there is to know of the devices.
  Situation situation_of_devices();
  /// A call of such a volume may be answered before anybody has looked for devices.
  bool may_do_without_look(index_t volume) const;
  /// How calls through `face` have devices opened.
  DeviceStart::Context start_context(Face& face);
  /// Once: takes over what was kept of this CPU BLAS.
  void recall_cpu_speed(Face& face);

  /// What run() does for calls that are not small, or when somebody watches.
  std::optional<runtime::JobStatistics> run_weighed(const Level3& call, index_t volume, Fallback fallback, Face& face,
                                                    Verdict verdict, CallTime& time,
                                                    CallReport::Is is = CallReport::Is::call);
  runtime::JobStatistics run_on_devices(runtime::Runtime& runtime, const Level3& call, index_t volume,
                                        const Verdict& verdict, const CallTime& time, CallReport::Is is);
  void run_on_cpu(const Level3& call, index_t volume, Fallback fallback, Face& face, const Verdict& verdict,
                  const CallTime& time, CallReport::Is is);
  /// The CPU BLAS behind `face`; nullptr, after a line on standard error, where the reference must do.
  /// @throws with Fallback::report what cpu_blas() throws
  std::shared_ptr<const kernels::CpuBlas> cpu_blas_or_reference(Fallback fallback, Face& face);

  // Of a call of LAPACK, which is a LapackCall or a DenseRun:
  /// @param on_cpu has the CPU compute it
  template <class Call, class OnCpu>
  std::optional<runtime::JobStatistics> run_lapack(Call& call, Fallback fallback, Face& face, CallTime* time,
                                                   const OnCpu& on_cpu);
  template <class Call, class OnCpu>
  void run_on_cpu(Call& call, const LapackDemand& demand, const Verdict& verdict, const CallTime& time,
                  const OnCpu& on_cpu);
  runtime::JobStatistics run_on_devices(runtime::Runtime& runtime, DenseRun& run, const LapackDemand& demand,
                                        Face& face, const Verdict& verdict, const CallTime& time);
  /// Learns from the job, and tells of it. @param pending of it
  template <class Call>
  void note_on_devices(CallHistory::OnDevices& pending, const Call& call, const LapackDemand& demand,
                       const Verdict& verdict, runtime::JobStatistics& job, const CallTime& time);
  runtime::JobStatistics run_on_devices(runtime::Runtime& runtime, LapackCall& call, const LapackDemand& demand,
                                        Face& face, const Verdict& verdict, const CallTime& time);
  /// @throws as routines::lu; DeviceLost if A is lost
  runtime::JobStatistics factor(runtime::Runtime& runtime, LapackCall& call);
  /// B, by the factors in A. What ran on devices is added to `job`. @throws DeviceLost
  void solve(const LapackCall& call, Face& face, runtime::JobStatistics& job);
  /// What of a runtime's start the context knows.
  void complete_start_up(runtime::JobStatistics& job, const CallTime& time) const;
  /// The times of a job become those of its call.
  static void tell_time(runtime::JobStatistics& job, const CallTime& time);
  /// What is done after a job, in the background.
  void attend_after_job(Face& face);

  /// What run_batch() does for problems that are decided together. @tparam Batch GemmBatch or LapackProblems
  template <class Batch>
  std::optional<runtime::JobStatistics> run_together(Batch& batch, Face& face, double* flops, CallTime& time);
  template <class Batch>
  runtime::JobStatistics run_batch_on_devices(runtime::Runtime& runtime, Batch& batch, const BatchDemand& demand,
                                              Face& face, const Verdict& verdict, const CallTime& time);
  template <class Batch>
  void run_batch_on_cpu(Batch& batch, const BatchDemand& demand, Face& face, const Verdict& verdict,
                        const CallTime& time);
  /// The problems [first, last), on as many threads as they may have.
  void compute_on_cpu(const GemmBatch& batch, index_t first, index_t last, Face& face) noexcept;
  void compute_on_cpu(LapackProblems& batch, index_t first, index_t last, Face& face) noexcept;
  /// @param volume that is divided among them
  int threads_for_batch(index_t volume, Face& face) noexcept;
  int processors() const { return CpuSpeed::available_processors(config_.local_ranks()); }
  /// Threads that batches may have on the CPU, all together. Where the CPU BLAS is not open yet, as many as it could.
  int threads_of_batches(const Face& face) const;
  /// What the threads that pack batches carry, all together.
  double packing_bytes_per_s();
  runtime::CpuHelp cpu_help(const Level3& call, index_t volume, const Verdict& verdict);
  void compute_on_cpu(const Level3& call, Fallback fallback, Face& face);
  /// Has another thread do warm_up(), once. Calls meanwhile stay on the CPU if that is sooner.
  void warm_up_in_background(Face& face);
  std::shared_ptr<const kernels::CpuBlas> open_cpu_blas(const Face& face);

  const Config config_;
  CallReport report_;
  bool learns_;  ///< some call may be weighed: the speed of the CPU matters
  CallHistory history_;
  struct OwnFace : Face {
    ~OwnFace() { delete cpu.load(std::memory_order_relaxed); }
  };
  OwnFace own_face_;  ///< of calls through the own API
  /// Whether somebody has been told or has done it, once is enough; order nothing.
  std::atomic<bool> told_of_setting_ = false;
  std::atomic<bool> told_of_reference_ = false;
  std::atomic<bool> recalled_ = false;
  DeviceStart start_;  ///< last: its thread uses the others
};

/// The context of all BLAS symbols: made from the environment at the first call, never destroyed.
/// @param time of the call that asks for it, which begins if the context must be made; may be null
Context& shared_context(CallTime* time = nullptr);

}  // namespace tessera::api
