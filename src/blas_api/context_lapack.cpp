// What becomes of a call of LAPACK: the CPU's LAPACK or the devices, and what is learnt and told of it.
#include <algorithm>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include "blas_api/context.hpp"
#include "blas_api/lapack_policy.hpp"
#include "blas_api/quietly.hpp"
#include "blas_api/row_interchanges.hpp"
#include "core/error.hpp"
#include "kernels/host/cpu_lapack_call.hpp"
#include "routines/dense_solvers.hpp"
#include "routines/lapack.hpp"

namespace tessera::api {
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
      continue;
    }
    for (double runtime::DeviceStatistics::*const number :
         {&runtime::DeviceStatistics::kernel_s, &runtime::DeviceStatistics::transfer_s,
          &runtime::DeviceStatistics::other_s, &runtime::DeviceStatistics::flops})
      (*same).*number += device.*number;
    using Count = std::int64_t runtime::DeviceStatistics::*;
    for (const Count count :
         {&runtime::DeviceStatistics::l1_hits, &runtime::DeviceStatistics::l2_hits, &runtime::DeviceStatistics::misses,
          &runtime::DeviceStatistics::evictions, &runtime::DeviceStatistics::bytes_up,
          &runtime::DeviceStatistics::bytes_down, &runtime::DeviceStatistics::bytes_peer,
          &runtime::DeviceStatistics::bytes_kept, &runtime::DeviceStatistics::tasks, &runtime::DeviceStatistics::steps,
          &runtime::DeviceStatistics::stolen})
      (*same).*count += device.*count;
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
          .n = call.nrhs,
          .A = call.A,
          .lda = call.lda,
          .C = call.B,
          .ldc = call.ldb};
}

/// A LAPACK call's Cholesky: L L^H X = B, or U^H U X = B.
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

const LapackCall& what_is(const LapackCall& call) { return call; }
const DenseProblem& what_is(const DenseRun& run) { return run.problem; }

}  // namespace

class Context::WeighedLapack final : public Weighed {
 public:
  WeighedLapack(Context& context, const LapackDemand& demand, Face& face)
      : context_(context), demand_(demand), face_(face) {}

  const OffloadRule& rule() const override { return context_.config_.offload.of(demand_.routine, demand_.type); }
  bool is_worth_no_look() const override {
    return context_.may_do_without_look(demand_.volume) && !context_.history_.cpu_speed().knows(demand_.type);
  }
  Verdict decide_now() override {
    Situation now = context_.situation_of_devices();
    context_.history_.describe(demand_, context_.learns_, now);
    return decide(rule(), demand_, now);
  }
  bool measures_cpu(const Verdict& verdict) override {
    const auto probe = context_.history_.wanted_probe(demand_, verdict.device_s);
    if (!probe) return false;
    context_.history_.time_on_cpu(
        *probe, [&](const Level3& product) { context_.compute_on_cpu(product, Fallback::report, face_); });
    return true;
  }

 private:
  Context& context_;
  const LapackDemand& demand_;
  Face& face_;
};

std::optional<runtime::JobStatistics> Context::run(LapackCall& call, Fallback fallback, Face* which, CpuLapack* cpu,
                                                   CallTime* time) {
  return run_lapack(call, fallback, which != nullptr ? *which : own_face_, time,
                    [&] { cpu != nullptr ? cpu->compute(call) : compute_on_cpu(call, fallback, which); });
}

std::optional<runtime::JobStatistics> Context::run(DenseRun& run, Fallback fallback, Face* which, CpuDense* cpu,
                                                   CallTime* time) {
  return run_lapack(run, fallback, which != nullptr ? *which : own_face_, time,
                    [&] { cpu != nullptr ? cpu->compute(run) : compute_on_cpu(run, fallback, which); });
}

template <class Call, class OnCpu>
std::optional<runtime::JobStatistics> Context::run_lapack(Call& call, Fallback fallback, Face& face,
                                                          CallTime* given_time, const OnCpu& on_cpu) {
  if (config_.warm_up) [[unlikely]]
    quietly([&] { warm_up_in_background(face); });
  const LapackDemand demand = demand_of(what_is(call));
  Verdict verdict = decide_early(config_.offload.of(demand.routine, demand.type), demand);
  if (!verdict.offload && demand.volume < CpuSpeed::least_volume && !report_.is_wanted()) [[likely]] {
    on_cpu();
    return std::nullopt;
  }
  CallTime own_time;
  CallTime& time = given_time != nullptr ? *given_time : own_time;
  time.begin();
  if (verdict.offload) {
    WeighedLapack weighed(*this, demand, face);
    const auto run_job = [&](runtime::Runtime& runtime) {
      return run_on_devices(runtime, call, demand, face, verdict, time);
    };
    if (auto job = try_devices(weighed, fallback, face, verdict, time, std::cref(run_job))) return job;
  }
  run_on_cpu(call, demand, verdict, time, on_cpu);
  return std::nullopt;
}

runtime::JobStatistics Context::run_on_devices(runtime::Runtime& runtime, LapackCall& call, const LapackDemand& demand,
                                               Face& face, const Verdict& verdict, const CallTime& time) {
  CallHistory::OnDevices pending(history_, verdict.device_s - verdict.wait_s);
  const double begin_s = device::now_seconds();
  runtime::JobStatistics job;
  call.info = 0;
  if (factors(call.routine)) {
    job = factor(runtime, call);
    call.info = job.info;
  }
  pending.leave();              // a solve is calls of its own
  job.routine = name_of(call);  // short enough to need no memory
  job.n = call.n;
  job.m = has_m(call.routine) ? call.m : call.n;
  job.k = solves(call.routine) ? call.nrhs : std::min(job.m, job.n);
  if (solves(call.routine) && call.info == 0 && call.nrhs > 0) {
    try {
      solve(call, face, job);
    } catch (const std::bad_alloc&) {
      throw DeviceLost("memory ran out while results were written");
    } catch (const NotAvailable& error) {  // nobody may take A and B for untouched
      throw DeviceLost(error.what());
    } catch (const OutOfDeviceMemory& error) {
      throw DeviceLost(error.what());
    }
    job.device_s = device::now_seconds() - begin_s;
    job.flops = demand.work.flops;
  }
  note_on_devices(pending, call, demand, verdict, job, time);
  return job;
}

runtime::JobStatistics Context::run_on_devices(runtime::Runtime& runtime, DenseRun& run, const LapackDemand& demand,
                                               Face& /*face*/, const Verdict& verdict, const CallTime& time) {
  CallHistory::OnDevices pending(history_, verdict.device_s - verdict.wait_s);
  run.problem.found = &run.found;
  runtime::JobStatistics job =
      routines::solve_dense(runtime, run.problem, std::nullopt, config_.tile.value_or(0),
                            runtime::CpuHelp{.always = config_.cpu_worker == CpuWorkerUse::always});
  run.info = job.info;
  note_on_devices(pending, run, demand, verdict, job, time);
  return job;
}

template <class Call>
void Context::note_on_devices(CallHistory::OnDevices& pending, const Call& call, const LapackDemand& demand,
                              const Verdict& verdict, runtime::JobStatistics& job, const CallTime& time) {
  complete_start_up(job, time);
  quietly([&] {
    tell_time(job, time);
    // One that ended early says nothing of others.
    if (learns_ && call.info == 0) {
      pending.record(demand, verdict, {.seconds = job.device_s, .beside = job.beside, .with_waiting_s = job.seconds});
    }
    report_.on_devices(what_is(call), demand, verdict, job);
  });
}

runtime::JobStatistics Context::factor(runtime::Runtime& runtime, LapackCall& call) {
  const index_t tile = config_.tile.value_or(0);
  const runtime::CpuHelp help{.always = config_.cpu_worker == CpuWorkerUse::always};
  if (is_hermitian(call.routine))
    return routines::cholesky(runtime, {call.type, call.uplo, call.n, call.A, call.lda}, tile, help);
  const index_t m = has_m(call.routine) ? call.m : call.n;
  if (call.routine == LapackCallRoutine::geqrf)
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

void Context::solve(const LapackCall& call, Face& face, runtime::JobStatistics& job) {
  const bool has_pivots = !is_hermitian(call.routine);
  const Op op = call.routine == LapackCallRoutine::getrs ? call.op : Op::no_trans;
  if (has_pivots && op == Op::no_trans) interchange_rows(call, PivotOrder::first_to_last, processors());
  for (const Triangle& triangle : has_pivots ? triangles_of_lu(op) : triangles_of_cholesky(call.uplo)) {
    const Level3 trsm = solve_with(call, triangle);
    const index_t volume = volume_of(trsm);
    const Verdict verdict = decide_early(config_.offload.of(trsm.routine, trsm.type), trsm, volume);
    // A has its factors by now, so that what devices refuse is the CPU's.
    CallTime time = CallTime::from_now();
    if (const auto part = run_weighed(trsm, volume, Fallback::cpu_blas, face, verdict, time, CallReport::Is::part))
      add_part(job, *part);
  }
  if (has_pivots && op != Op::no_trans) interchange_rows(call, PivotOrder::last_to_first, processors());
}

template <class Call, class OnCpu>
void Context::run_on_cpu(Call& call, const LapackDemand& demand, const Verdict& verdict, const CallTime& time,
                         const OnCpu& on_cpu) {
  const double begin_s = device::now_seconds();
  on_cpu();
  const double seconds = device::now_seconds() - begin_s;
  if (learns_ && demand.volume >= CpuSpeed::least_volume && call.info == 0)
    history_.note_on_cpu(demand, verdict, seconds, start_.stage() == DeviceStart::Stage::open);
  quietly([&] { report_.on_cpu(what_is(call), demand, verdict, time); });
}

void Context::compute_on_cpu(LapackCall& call, Fallback fallback, Face* which) {
  Face& face = which != nullptr ? *which : own_face_;
  kernels::compute_on_cpu(cpu_blas_or_reference(fallback, face).get(), call);
}

void Context::compute_on_cpu(DenseRun& run, Fallback fallback, Face* which) {
  Face& face = which != nullptr ? *which : own_face_;
  run.info = kernels::compute_on_cpu(cpu_blas_or_reference(fallback, face).get(), run.problem, run.found);
}

}  // namespace tessera::api
