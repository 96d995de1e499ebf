// Decides whether a call of LAPACK runs on the CPU or on devices, has it computed, learns from it and reports it.
#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "kernels/host/cpu_lapack_call.hpp"
#include "offload/context.hpp"
#include "offload/quietly.hpp"
#include "offload/row_interchanges.hpp"
#include "offload/work.hpp"
#include "routines/dense_solvers.hpp"
#include "routines/lapack.hpp"

namespace tessera::offload {
namespace {

/// Adds what a part of a call has done. Devices come in the same order in all jobs, but for those that were lost.
void add_part(runtime::JobStatistics& whole, const runtime::JobStatistics& part) {
  whole.compulsory_up += part.compulsory_up;
  whole.compulsory_down += part.compulsory_down;
  whole.restarts += part.restarts;
  whole.beside = std::max(whole.beside, part.beside);
  if (whole.first_kernel_at <= 0) whole.first_kernel_at = part.first_kernel_at;
  if (!whole.start_up) whole.start_up = part.start_up;
  for (const runtime::DeviceStatistics& device : part.devices) {
    const auto same = std::find_if(whole.devices.begin(), whole.devices.end(),
                                   [&](const auto& known) { return known.device == device.device; });
    if (same == whole.devices.end()) {
      whole.devices.push_back(device);
    } else {
      same->add(device);
    }
  }
}

/// Steps of a solve, B in place of X.
struct Triangle {
  Uplo uplo = Uplo::lower;
  Op op = Op::no_trans;
  Diag diag = Diag::non_unit;
};
Level3 solve_with(const LapackCall& call, const Triangle& triangle) {
  return {.routine = Routine::trsm,
          .type = call.type,
          .side = Side::left,
          .uplo = triangle.uplo,
          .op_a = triangle.op,
          .diag = triangle.diag,
          .m = call.n,
          .n = call.k,
          .A = call.A,
          .lda = call.lda,
          .C = call.B,
          .ldc = call.ldb};
}

/// Cholesky: L L^H X = B, or U^H U X = B.
std::vector<Triangle> triangles_of_cholesky(Uplo uplo) {
  if (uplo == Uplo::lower) return {{uplo, Op::no_trans}, {uplo, Op::conj_trans}};
  return {{uplo, Op::conj_trans}, {uplo, Op::no_trans}};
}
/// P^T L U X = B, or its transpose.
std::vector<Triangle> triangles_of_lu(Op op) {
  const Triangle L{Uplo::lower, op, Diag::unit}, U{Uplo::upper, op, Diag::non_unit};
  if (op == Op::no_trans) return {L, U};
  return {U, L};
}

}  // namespace

struct Context::LapackRunCall final : Call {
  LapackRunCall(Context& of, const Work& its_work, Fallback answer, Face& its_face, CallTime& its_time,
                LapackRun& its_run, CpuLapack* its_cpu)
      : Call(of, its_work, answer, its_face, its_time), run(its_run), cpu(its_cpu) {}

  std::string text() const override { return text_of(run.problem); }
  /// One that ended early tells nothing of others.
  bool is_typical(const runtime::JobStatistics* /*job*/) const override { return run.info == 0; }
  void compute_on_cpu() override { cpu != nullptr ? cpu->compute(run) : context.compute_on_cpu(run, fallback, &face); }
  runtime::JobStatistics compute_on(runtime::Runtime& runtime, CallHistory::OnDevices& pending) override {
    if (row_of(run.problem.routine).way == Way::factors) return run_by_factors(runtime, pending);
    run.problem.found = &run.found;
    runtime::JobStatistics job =
        routines::solve_dense(runtime, run.problem, std::nullopt, context.config_.tile.value_or(0), cpu_help());
    run.info = job.info;
    return job;
  }

 private:
  runtime::CpuHelp cpu_help() const { return {.always = context.config_.cpu_worker == CpuWorkerUse::always}; }
  /// Factors, and solves by the factors. @param pending ends where a solve begins
  runtime::JobStatistics run_by_factors(runtime::Runtime& runtime, CallHistory::OnDevices& pending);
  /// @throws as routines::lu; DeviceLost if A is lost
  runtime::JobStatistics factor(runtime::Runtime& runtime);
  /// Solves for B, by the factors in A. Adds the work of devices to `job`. @throws DeviceLost
  void solve(runtime::JobStatistics& job);

  LapackRun& run;
  CpuLapack* cpu;  ///< nullptr: the CPU BLAS behind the face
};

std::optional<runtime::JobStatistics> Context::run(LapackRun& run, Fallback fallback, Face* which, CpuLapack* cpu,
                                                   CallTime* given_time) {
  Face& face = which != nullptr ? *which : own_face_;
  if (config_.warm_up) [[unlikely]]
    quietly([&] { warm_up_in_background(face); });
  CallTime own_time;
  CallTime& time = given_time != nullptr ? *given_time : own_time;
  LapackRunCall call(*this, work_of(run.problem), fallback, face, time, run, cpu);
  call.decision = decide_early(call.rule(), call.work);
  if (!call.decision.offload && call.work.volume < CpuSpeed::least_volume && !report_.is_wanted()) [[likely]] {
    call.compute_on_cpu();
    return std::nullopt;
  }
  time.begin();
  return this->run(call);
}

runtime::JobStatistics Context::LapackRunCall::run_by_factors(runtime::Runtime& runtime,
                                                              CallHistory::OnDevices& pending) {
  const double begin_s = device::now_seconds();
  const LapackCall& p = run.problem;
  runtime::JobStatistics job;
  run.info = 0;
  if (factors(p.routine)) {
    job = factor(runtime);
    run.info = job.info;
  }
  pending.leave();           // a solve is calls of its own
  job.routine = name_of(p);  // short enough to need no memory
  job.n = p.n;
  job.m = rows_of(p);
  job.k = solves(p.routine) ? p.k : std::min(job.m, job.n);
  if (solves(p.routine) && run.info == 0 && p.k > 0) {
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

runtime::JobStatistics Context::LapackRunCall::factor(runtime::Runtime& runtime) {
  const LapackCall& call = run.problem;
  const index_t tile = context.config_.tile.value_or(0);
  const runtime::CpuHelp help = cpu_help();
  if (is_hermitian(call.routine))
    return routines::cholesky(runtime, {call.type, call.uplo, call.n, call.A, call.lda}, tile, help);
  const index_t m = rows_of(call);
  if (call.routine == Routine::geqrf)
    return routines::qr(runtime, {call.type, m, call.n, call.A, call.lda, call.tau}, tile, help);
  std::vector<index_t> pivots(static_cast<std::size_t>(std::min(m, call.n)), 0);
  runtime::JobStatistics job;
  try {
    job = routines::lu(runtime, {call.type, m, call.n, call.A, call.lda, pivots.data()}, tile, help);
  } catch (const std::bad_alloc&) {
    // Pivots are told when A has its factors, but for interchanges that need memory.
    if (pivots.front() == 0) throw;
    throw DeviceLost("memory ran out while results were written");
  }
  dispatch_pivots(call, [&]<class Integer>(Integer* ipiv) {
    std::transform(pivots.begin(), pivots.end(), ipiv, [](index_t row) { return static_cast<Integer>(row); });
  });
  return job;
}

void Context::LapackRunCall::solve(runtime::JobStatistics& job) {
  const LapackCall& call = run.problem;
  const bool has_pivots = !is_hermitian(call.routine);
  const Op op = call.routine == Routine::getrs ? call.op : Op::no_trans;
  if (has_pivots && op == Op::no_trans) interchange_rows(call, PivotOrder::first_to_last, context.processors());
  for (const Triangle& triangle : has_pivots ? triangles_of_lu(op) : triangles_of_cholesky(call.uplo)) {
    const Level3 trsm = solve_with(call, triangle);
    const Decision early =
        decide_early(context.rules_.of(trsm.routine, trsm.type), trsm.only_scales(), volume_of(trsm));
    // A has its factors by now, so that what devices refuse is the CPU's.
    CallTime time_of_part = CallTime::from_now();
    if (const auto part = context.run_product(trsm, Fallback::cpu_blas, face, early, time_of_part, true))
      add_part(job, *part);
  }
  if (has_pivots && op != Op::no_trans) interchange_rows(call, PivotOrder::last_to_first, context.processors());
}

void Context::compute_on_cpu(LapackRun& run, Fallback fallback, Face* which) {
  Face& face = which != nullptr ? *which : own_face_;
  run.info = kernels::compute_on_cpu(cpu_blas_or_reference(fallback, face).get(), run.problem, run.found);
}

}  // namespace tessera::offload
