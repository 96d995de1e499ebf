// One context: configuration, CPU BLAS, and the runtime, opened when calls are worth it. It asks the policy
// (policy.hpp) about each call and has it computed where that says. The C API makes contexts; the BLAS symbols share
// one that is never destroyed.
//
// Four other files do the rest: device_start (opens devices), policy (decides),
// call_history (records what calls have shown), call_report (reports).
//
// Invariants: the constructor touches no device and loads nothing. A call that stays
// on the CPU takes no lock, and does not wait for devices to be opened.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "calls/gemm_batch.hpp"
#include "calls/lapack_call.hpp"
#include "calls/lapack_problems.hpp"
#include "calls/level3.hpp"
#include "core/config.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "offload/call_history.hpp"
#include "offload/call_report.hpp"
#include "offload/call_time.hpp"
#include "offload/device_start.hpp"
#include "offload/face.hpp"
#include "offload/policy.hpp"
#include "offload/program_history.hpp"
#include "offload/quietly.hpp"
#include "offload/rule_table.hpp"
#include "offload/running_calls.hpp"
#include "runtime/lazy_matrices.hpp"
#include "runtime/runtime.hpp"
#include "runtime/statistics.hpp"

namespace tessera::offload {

/// The answer to a call whose devices cannot be opened or cannot hold it. The C API reports that to
/// its caller. The BLAS symbols have no way to report it, and let the CPU BLAS answer.
enum class Fallback : std::uint8_t { report, cpu_blas };

/// A problem of LAPACK, and what LAPACK tells of it.
struct LapackRun {
  LapackCall problem;
  index_t info = 0;
  index_t found = 0;  ///< eigenvalues, or the rank
};

/// The LAPACK that computes what devices do not: for the BLAS symbols the program's own, with the program's arguments.
class CpuLapack {
 public:
  /// Computes the call and sets its info. Throws nothing once it has begun to write.
  virtual void compute(LapackRun& run) = 0;

 protected:
  ~CpuLapack() = default;
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

  /// The same for a call of LAPACK. Sets info and found. A factorization runs on devices as a whole. A solve by its
  /// factors is decided for itself, and is interchanges and Level-3 calls there. One device computes any other call.
  /// Thread-safe.
  /// @pre arguments are good, and it does something @param cpu nullptr: the LAPACK of the CPU BLAS behind `face`
  /// @throws as above; after DeviceLost what the call writes is lost
  std::optional<runtime::JobStatistics> run(LapackRun& run, Fallback fallback = Fallback::report, Face* face = nullptr,
                                            CpuLapack* cpu = nullptr, CallTime* time = nullptr);

  /// Has the LAPACK of the CPU BLAS behind `face` compute it. Factorizations that it lacks are made of products, or are
  /// the readable reference's. Sizes may be 0. @throws NotAvailable if no CPU BLAS has it; std::bad_alloc
  void compute_on_cpu(LapackRun& run, Fallback fallback = Fallback::report, Face* face = nullptr);

  /// The same for a batch. Products that are worth it by themselves run one after the other as calls of their own. The
  /// policy decides about all others together. The CPU BLAS answers after any failure. Thread-safe.
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

  /// Whether a call with this work would run on devices now; they may be closed. May measure the CPU BLAS. Thread-safe.
  bool would_offload(const Work& work);

  /// Calls of fewer multiply-adds are the CPU's without a look at anything else, and nobody wants to be told of them.
  index_t least_decided_volume() const {
    const bool counts = report_.is_wanted() || config_.warm_up == WarmUp::first_call;
    return counts ? 0 : least_decided_volume_;
  }

  /// That this process may use.
  int processors() const { return CpuSpeed::available_processors(config_.local_ranks()); }

  /// Where matrices are made whose results stay on devices. These are opened if need be; nullptr as runtime(). From now
  /// on all calls look for such matrices. Thread-safe. @throws as runtime(); NotAvailable if devices have no memory for
  /// them
  runtime::LazyMatrices* place_of_matrices();

  /// The host begins to use these matrices of a call. @param use set, where some are lazy, for as long as it does
  /// @throws as runtime::LazyMatrices::settle()
  void begin_host_use(std::optional<runtime::HostUse>& use, std::span<const device::Touched> touched) {
    if (runtime::LazyMatrices* const lazy = lazy_matrices()) use.emplace(*lazy, touched);
  }

  /// Estimated seconds of the calls that are on the devices or wait for them.
  double backlog_s() const { return history_.backlog_s(); }

  /// Opens the CPU BLAS and the devices, if there are any, and has each of these run each
  /// kernel once, so that the first large call finds everything loaded. A part that cannot
  /// be opened is left as it is. Thread-safe; blocks for as long as it takes.
  /// @throws as runtime(), and as runtime::Runtime::warm_up()
  void warm_up(Face* face = nullptr);

  /// Has devices opened in the background if the settings say so and this program used them the last time. For the
  /// moment when a library is loaded. Takes less than a millisecond. @throws std::bad_alloc, std::system_error
  void start_early();
  bool devices_are_open() const { return start_.stage() == DeviceStart::Stage::open; }

  /// Measures the devices and keeps their rates for later contexts and processes. @return the file they are in, and the
  /// rates
  /// @throws NotAvailable if there are no devices, or no place for the file; as runtime()
  std::pair<std::string, runtime::Calibration> calibrate();

  /// One line per device, or one that says that the CPU BLAS is used and why. Opens the devices. @throws as runtime()
  std::string describe_devices();

 private:
  /// A call under way: its work, how either side computes it, and where it is decided to run.
  struct Call {
    Call(Context& of, const Work& its_work, Fallback answer, Face& its_face, CallTime& its_time)
        : context(of), work(its_work), fallback(answer), face(its_face), time(its_time) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    virtual ~Call() = default;
    virtual std::string text() const = 0;
    /// Nothing is written if it throws NotAvailable, OutOfDeviceMemory or std::bad_alloc.
    virtual runtime::JobStatistics compute_on(runtime::Runtime& runtime, CallHistory::OnDevices& pending) = 0;
    virtual void compute_on_cpu() = 0;
    /// The matrices that it reads, as far as some may be on devices. @throws std::bad_alloc
    virtual std::vector<device::HostMatrix> inputs() const { return {}; }
    /// The matrices that it uses. @return none for batches, which hold theirs as a whole @throws std::bad_alloc
    virtual std::vector<device::Touched> touched() const { return {}; }
    /// Measures the CPU where that may change the decision. @return whether it has: there is to be another one
    virtual bool measures_cpu();
    static constexpr OffloadRule with_whole{.when = Offload::always};
    /// By which it is decided. Unless the settings say more, a part follows a whole that runs on devices.
    const OffloadRule& rule() const {
      const OffloadRule& own = context.rules_.of(work.routine, work.type);
      return follows_whole && own.when == Offload::automatic ? with_whole : own;
    }
    /// @pre neither its work nor its problem changes meanwhile
    RunningCall running(bool on_devices) const {
      return {[this] { return text(); }, time.entered_s(), work.flops, on_devices, is_part};
    }
    /// Its time tells of other calls like it. @param job that ran on devices; nullptr: the CPU computed it
    virtual bool is_typical(const runtime::JobStatistics* /*job*/) const { return true; }

    Context& context;
    Work work;
    Fallback fallback;
    Face& face;
    CallTime& time;
    Decision decision = {};
    bool is_part = false;        ///< of another call
    bool follows_whole = false;  ///< which is on devices, and so are its parts
  };
  struct ProductCall;
  struct Question;
  struct LapackRunCall;
  template <class Batch>
  struct BatchCall;

  /// The face of a call that begins; null: the own API.
  Face& face_of_call(Face* which) {
    Face& face = which != nullptr ? *which : own_face_;
    if (config_.warm_up == WarmUp::first_call) [[unlikely]]
      quietly([&] { warm_up_in_background(face); });
    return face;
  }
  /// Makes the early decision, and runs the call.
  std::optional<runtime::JobStatistics> decide_and_run(Call& call);
  /// Runs a product on devices, if they can, as a part of a call that is decided for them. The summary counts the
  /// whole.
  std::optional<runtime::JobStatistics> run_part(const Level3& call, Face& face);
  /// Decides and runs a solve by factors as a part of a call that has made these.
  std::optional<runtime::JobStatistics> run_part(LapackRun& run, Face& face);
  /// Runs a call that is not small, or of which a report is wanted. @pre its early decision is made
  /// @return statistics if it ran on devices
  /// @throws with Fallback::report what devices_for() throws, OutOfDeviceMemory and std::bad_alloc; what compute_on()
  /// throws besides
  std::optional<runtime::JobStatistics> run(Call& call);
  /// The same, unless the CPU is to answer; the decision then says why.
  std::optional<runtime::JobStatistics> try_devices(Call& call);
  /// Decides the call by what is known now, and measures the CPU where that may change it. @return whether devices are
  /// to compute it. They may be closed; if they have failed to open, the decision is left as it was
  bool is_for_devices(Call& call);
  /// The opened runtime if it is to run on it, else nullptr. Completes the decision.
  runtime::Runtime* devices_for(Call& call);
  runtime::JobStatistics run_on_devices(runtime::Runtime& runtime, Call& call);
  void run_on_cpu(Call& call);
  /// The runtime of devices that are open or have failed to open.
  runtime::Runtime* opened(Fallback fallback, Decision& decision) const;
  /// nullptr if there are none.
  runtime::LazyMatrices* lazy_matrices() const;
  /// The conditions under which the call is decided now.
  Conditions conditions_for(const Call& call);
  /// Its work, without the bytes that are on devices already.
  Work work_left(const Call& call) const;
  /// How calls through `face` have devices opened. nullptr: the face of the first call on devices.
  DeviceStart::Context start_context(Face* face);
  /// Of the program, for the next run.
  void note_program(ProgramHistory::Seen seen);

  /// The CPU BLAS behind `face`; nullptr, after a line on standard error, where the reference must do.
  /// @throws with Fallback::report what cpu_blas() throws
  std::shared_ptr<const kernels::CpuBlas> cpu_blas_or_reference(Fallback fallback, Face& face);

  /// Adds the times of the runtime's start that the context knows.
  void complete_start_up(runtime::JobStatistics& job, const CallTime& time) const;
  void report(const Call& call, const runtime::JobStatistics* job) const;
  /// Starts the background work that follows a job.
  void serve_after_job(Face& face);

  /// Does the work of run_batch() for problems that are decided together. @tparam Batch GemmBatch or LapackProblems
  template <class Batch>
  std::optional<runtime::JobStatistics> run_together(Batch& batch, Face& face, double* flops, CallTime& time);
  /// The problems [first, last), on as many threads as they may have.
  void compute_on_cpu(const GemmBatch& batch, index_t first, index_t last, Face& face) noexcept;
  void compute_on_cpu(LapackProblems& batch, index_t first, index_t last, Face& face) noexcept;
  /// @param volume that is divided among them
  int threads_for_batch(index_t volume, Face& face) noexcept;
  /// Threads that batches may have on the CPU, all together. Where the CPU BLAS is not open yet, as many as it could.
  int threads_of_batches(const Face& face) const;
  /// The rate at which all threads together pack batches.
  double packing_bytes_per_s();
  runtime::CpuHelp cpu_help(const Work& work, const Decision& decision);
  void compute_on_cpu(const Level3& call, Fallback fallback, Face& face);
  /// LAPACK itself knows X on the right only as trsm. @pre the side is right, and the routine has such a solution
  void solve_from_the_right(LapackRun& run, Fallback fallback, Face& face);
  /// Has another thread do warm_up(), once. Calls meanwhile stay on the CPU if that is sooner.
  void warm_up_in_background(Face& face);
  std::shared_ptr<const kernels::CpuBlas> open_cpu_blas(const Face& face);

  const Config config_;
  const RuleTable rules_;
  const index_t least_decided_volume_;
  CallReport report_;
  bool learns_;  ///< some call may be weighed: the speed of the CPU matters
  CallHistory history_;
  struct OwnFace : Face {
    OwnFace() { search.among_loaded = search.any_spelling = true; }
    ~OwnFace() { delete cpu.load(std::memory_order_relaxed); }
  };
  OwnFace own_face_;  ///< of calls through the own API
  /// Set when somebody has been told or has done it, since once is enough. They order nothing.
  std::atomic<bool> told_of_setting_ = false;
  std::atomic<bool> told_of_reference_ = false;
  std::atomic<bool> noted_program_ = false;
  std::atomic<bool> started_early_ = false;
  std::atomic<bool> keeps_matrices_ = false;
  std::atomic<Face*> first_face_ = nullptr;  ///< of the first call on devices
  DeviceStart start_;                        ///< last: its thread uses the others
};

/// The context of all BLAS symbols: the one that was chosen, else one made from the environment at the first call and
/// never destroyed. @param time of the call that asks for it, which begins if the context must be made; may be null
Context& shared_context(CallTime* time = nullptr);
/// Has the symbols use another one from now on. Calls in flight end where they are. Thread-safe.
/// @param context that lives as long as the process; nullptr: the environment's
void choose_context(Context* context) noexcept;

}  // namespace tessera::offload
