// Decides whether a call of LAPACK runs on the CPU or on devices, has it computed, learns from it and reports it.
#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "kernels/host/cpu_lapack_call.hpp"
#include "offload/context.hpp"
#include "offload/quietly.hpp"
#include "offload/work.hpp"
#include "routines/by_factors.hpp"
#include "routines/dense_solvers.hpp"
#include "runtime/whole/whole_job.hpp"

namespace tessera::offload {
struct Context::LapackRunCall final : Call {
  LapackRunCall(Context& of, const Work& its_work, Fallback answer, Face& its_face, CallTime& its_time,
                LapackRun& its_run, CpuLapack* its_cpu)
      : Call(of, its_work, answer, its_face, its_time), run_(its_run), cpu_(its_cpu) {}

  std::string text() const override { return text_of(run_.problem); }
  /// One that ended early tells nothing of others, and one whose products stayed on the CPU nothing of devices.
  bool is_typical(const runtime::JobStatistics* job) const override {
    return run_.info == 0 && (job == nullptr || !job->devices.empty());
  }
  void compute_on_cpu() override {
    cpu_ != nullptr ? cpu_->compute(run_) : context.compute_on_cpu(run_, fallback, &face);
  }
  std::vector<device::HostMatrix> inputs() const override {
    std::vector<device::HostMatrix> inputs;
    for (const LapackOperand& operand : LapackOperands(run_.problem)) {
      if (operand.reads) inputs.push_back(runtime::matrix_of(operand, operand.read_rows, operand.read_cols));
    }
    return inputs;
  }
  std::vector<device::Touched> touched() const override { return runtime::touched_by(run_.problem); }
  runtime::JobStatistics compute_on(runtime::Runtime& runtime, CallHistory::OnDevices& pending) override {
    std::optional<runtime::HostUse> host_use;
    if (runtime.lazy_matrices().any()) host_use.emplace(runtime.lazy_matrices(), touched_beside_devices());
    if (row_of(run_.problem.routine).way == Way::factors) return run_by_factors(runtime, pending);
    run_.problem.found = &run_.found;
    runtime::JobStatistics job =
        routines::solve_dense(runtime, run_.problem, std::nullopt, context.config_.tile.value_or(0), cpu_help());
    run_.info = job.info;
    return job;
  }

 private:
  /// Cholesky's factorization and solves by it are tiles, and so are solves by the factors of LU, but for B's
  /// interchanges. All else may do something on the host.
  std::vector<device::Touched> touched_beside_devices() const {
    const LapackCall& p = run_.problem;
    if (row_of(p.routine).way == Way::factors && is_hermitian(p.routine)) return {};
    std::vector<device::Touched> used = touched();
    if (p.routine == Routine::getrs) std::erase_if(used, [&](const auto& each) { return each.matrix.address == p.A; });
    return used;
  }
  runtime::CpuHelp cpu_help() const { return {.always = context.config_.cpu_worker == CpuWorkerUse::always}; }
  /// Factors, and solves by the factors. @param pending ends where a solve begins
  runtime::JobStatistics run_by_factors(runtime::Runtime& runtime, CallHistory::OnDevices& pending);
  /// Solves for B by the factors in A, where a call that made them decides about it. Adds the work of devices to `job`.
  /// @throws DeviceLost
  void solve(runtime::JobStatistics& job);

  LapackRun& run_;
  CpuLapack* cpu_;  ///< nullptr: the CPU BLAS behind the face
};

std::optional<runtime::JobStatistics> Context::run(LapackRun& run, Fallback fallback, Face* which, CpuLapack* cpu,
                                                   CallTime* given_time) {
  Face& face = face_of_call(which);
  CallTime own_time;
  CallTime& time = given_time != nullptr ? *given_time : own_time;
  LapackRunCall call(*this, work_of(run.problem), fallback, face, time, run, cpu);
  return decide_and_run(call);
}

runtime::JobStatistics Context::LapackRunCall::run_by_factors(runtime::Runtime& runtime,
                                                              CallHistory::OnDevices& pending) {
  const double begin_s = device::now_seconds();
  const LapackCall& p = run_.problem;
  runtime::JobStatistics job;
  run_.info = 0;
  if (factors(p.routine)) {
    job = routines::factor(runtime, p, context.config_.tile.value_or(0), cpu_help());
    run_.info = job.info;
  }
  pending.leave();           // a solve is calls of its own
  job.routine = name_of(p);  // short enough to need no memory
  job.n = p.n;
  job.m = rows_of(p);
  job.k = solves(p.routine) ? p.k : std::min(job.m, job.n);
  if (solves(p.routine) && run_.info == 0 && p.k > 0) {
    try {
      solve(job);
    } catch (const std::bad_alloc&) {
      throw DeviceLost("memory ran out while results were written");
    } catch (const NotAvailable& error) {  // nobody may take A and B for untouched
      throw DeviceLost(error.what());
    } catch (const OutOfDeviceMemory& error) {
      throw DeviceLost(error.what());
    }
    job.device_s = device::now_seconds() - begin_s;
    job.flops = work.flops;
  }
  return job;
}

void Context::LapackRunCall::solve(runtime::JobStatistics& job) {
  const LapackCall& p = run_.problem;
  if (factors(p.routine)) {
    LapackRun part{.problem = p};
    part.problem.routine = is_hermitian(p.routine) ? Routine::potrs : Routine::getrs;
    part.problem.op = Op::no_trans;
    if (const auto solved = context.run_part(part, face)) job.add(*solved);
    return;
  }
  routines::solve_by_factors(p, context.processors(), [&](const Level3& trsm) {
    // B may have changed by now, so that what devices refuse is the CPU's.
    if (const auto part = context.run_part(trsm, face)) job.add(*part);
  });
}

std::optional<runtime::JobStatistics> Context::run_part(LapackRun& run, Face& face) {
  CallTime time;
  LapackRunCall part(*this, work_of(run.problem), Fallback::cpu_blas, face, time, run, nullptr);
  part.is_part = true;
  return decide_and_run(part);
}

void Context::solve_from_the_right(LapackRun& run, Fallback fallback, Face& face) {
  const LapackCall& p = run.problem;
  if (p.routine == Routine::trtrs) {
    run.info = routines::forbidding_zero(p);
    if (run.info == 0 && p.n > 0 && p.k > 0)
      compute_on_cpu(routines::triangular_solve(p, {p.uplo, p.op, p.diag}), fallback, face);
    return;
  }
  if (factors(p.routine)) {
    LapackRun factors{.problem = p};
    factors.problem.routine = is_hermitian(p.routine) ? Routine::potrf : Routine::getrf;
    compute_on_cpu(factors, fallback, &face);
    run.info = factors.info;
  }
  if (run.info != 0 || p.n == 0 || p.k == 0) return;
  routines::solve_by_factors(p, processors(), [&](const Level3& trsm) { compute_on_cpu(trsm, fallback, face); });
}

void Context::compute_on_cpu(LapackRun& run, Fallback fallback, Face* which) {
  Face& face = which != nullptr ? *which : own_face_;
  std::optional<runtime::HostUse> host_use;
  if (lazy_matrices() != nullptr) begin_host_use(host_use, runtime::touched_by(run.problem));
  const Routine routine = run.problem.routine;
  const bool may_be_right = solves(routine) || routine == Routine::trtrs;
  if (may_be_right && run.problem.side == Side::right) return solve_from_the_right(run, fallback, face);
  run.info = kernels::compute_on_cpu(cpu_blas_or_reference(fallback, face).get(), run.problem, run.found);
}

}  // namespace tessera::offload
