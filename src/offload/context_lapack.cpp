// Decides whether a call of LAPACK runs on the CPU or on devices, has it computed, learns from it and reports it.
#include <algorithm>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "kernels/host/cpu_lapack_call.hpp"
#include "offload/context.hpp"
#include "offload/lapack_policy.hpp"
#include "offload/quietly.hpp"
#include "offload/row_interchanges.hpp"
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

class Context::WeighedLapack final : public Weighed {
 public:
  WeighedLapack(Context& context, const LapackDemand& demand, Face& face)
      : context_(context), demand_(demand), face_(face) {}

  const OffloadRule& rule() const override { return context_.rules_.of(demand_.routine, demand_.type); }
  bool is_worth_no_look() const override {
    return context_.may_do_without_look(demand_.volume) && !context_.history_.cpu_speed().knows(demand_.type);
  }
  Decision decide_now() override {
    Conditions now = context_.conditions_of_devices();
    context_.history_.describe(demand_, context_.learns_, now);
    return decide(rule(), demand_, now);
  }
  bool measures_cpu(const Decision& decision) override {
    const auto probe = context_.history_.wanted_probe(demand_, decision.device_s);
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

std::optional<runtime::JobStatistics> Context::run(LapackRun& run, Fallback fallback, Face* which, CpuLapack* cpu,
                                                   CallTime* given_time) {
  Face& face = which != nullptr ? *which : own_face_;
  const auto on_cpu = [&] { cpu != nullptr ? cpu->compute(run) : compute_on_cpu(run, fallback, which); };
  if (config_.warm_up) [[unlikely]]
    quietly([&] { warm_up_in_background(face); });
  const LapackDemand demand = demand_of(run.problem);
  Decision decision = decide_early(rules_.of(demand.routine, demand.type), demand);
  if (!decision.offload && demand.volume < CpuSpeed::least_volume && !report_.is_wanted()) [[likely]] {
    on_cpu();
    return std::nullopt;
  }
  CallTime own_time;
  CallTime& time = given_time != nullptr ? *given_time : own_time;
  time.begin();
  if (decision.offload) {
    WeighedLapack weighed(*this, demand, face);
    const auto run_job = [&](runtime::Runtime& runtime) {
      return run_on_devices(runtime, run, demand, face, decision, time);
    };
    if (auto job = try_devices(weighed, fallback, face, decision, time, std::cref(run_job))) return job;
  }
  run_on_cpu(run, demand, decision, time, on_cpu);
  return std::nullopt;
}

runtime::JobStatistics Context::run_on_devices(runtime::Runtime& runtime, LapackRun& run, const LapackDemand& demand,
                                               Face& face, const Decision& decision, const CallTime& time) {
  CallHistory::OnDevices pending(history_, decision.device_s - decision.wait_s);
  runtime::JobStatistics job;
  if (row_of(run.problem.routine).way == Way::factors) {
    job = run_by_factors(runtime, run, demand, face, pending);
  } else {
    run.problem.found = &run.found;
    job = routines::solve_dense(runtime, run.problem, std::nullopt, config_.tile.value_or(0),
                                runtime::CpuHelp{.always = config_.cpu_worker == CpuWorkerUse::always});
    run.info = job.info;
  }
  complete_start_up(job, time);
  quietly([&] {
    tell_time(job, time);
    // One that ended early says nothing of others.
    if (learns_ && run.info == 0) {
      pending.record(demand, decision, {.seconds = job.device_s, .beside = job.beside, .with_waiting_s = job.seconds});
    }
    report_.on_devices(run.problem, demand, decision, job);
  });
  return job;
}

runtime::JobStatistics Context::run_by_factors(runtime::Runtime& runtime, LapackRun& run, const LapackDemand& demand,
                                               Face& face, CallHistory::OnDevices& pending) {
  const double begin_s = device::now_seconds();
  const LapackCall& p = run.problem;
  runtime::JobStatistics job;
  run.info = 0;
  if (factors(p.routine)) {
    job = factor(runtime, p);
    run.info = job.info;
  }
  pending.leave();           // a solve is calls of its own
  job.routine = name_of(p);  // short enough to need no memory
  job.n = p.n;
  job.m = rows_of(p);
  job.k = solves(p.routine) ? p.k : std::min(job.m, job.n);
  if (solves(p.routine) && run.info == 0 && p.k > 0) {
    try {
      solve(p, face, job);
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
  return job;
}

runtime::JobStatistics Context::factor(runtime::Runtime& runtime, const LapackCall& call) {
  const index_t tile = config_.tile.value_or(0);
  const runtime::CpuHelp help{.always = config_.cpu_worker == CpuWorkerUse::always};
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

void Context::solve(const LapackCall& call, Face& face, runtime::JobStatistics& job) {
  const bool has_pivots = !is_hermitian(call.routine);
  const Op op = call.routine == Routine::getrs ? call.op : Op::no_trans;
  if (has_pivots && op == Op::no_trans) interchange_rows(call, PivotOrder::first_to_last, processors());
  for (const Triangle& triangle : has_pivots ? triangles_of_lu(op) : triangles_of_cholesky(call.uplo)) {
    const Level3 trsm = solve_with(call, triangle);
    const index_t volume = volume_of(trsm);
    const Decision decision = decide_early(rules_.of(trsm.routine, trsm.type), trsm, volume);
    // A has its factors by now, so that what devices refuse is the CPU's.
    CallTime time = CallTime::from_now();
    if (const auto part = run_weighed(trsm, volume, Fallback::cpu_blas, face, decision, time, CallReport::Is::part))
      add_part(job, *part);
  }
  if (has_pivots && op != Op::no_trans) interchange_rows(call, PivotOrder::last_to_first, processors());
}

template <class OnCpu>
void Context::run_on_cpu(LapackRun& run, const LapackDemand& demand, const Decision& decision, const CallTime& time,
                         const OnCpu& on_cpu) {
  const double begin_s = device::now_seconds();
  on_cpu();
  const double seconds = device::now_seconds() - begin_s;
  if (learns_ && demand.volume >= CpuSpeed::least_volume && run.info == 0)
    history_.note_on_cpu(demand, decision, seconds, start_.stage() == DeviceStart::Stage::open);
  quietly([&] { report_.on_cpu(run.problem, demand, decision, time); });
}

void Context::compute_on_cpu(LapackRun& run, Fallback fallback, Face* which) {
  Face& face = which != nullptr ? *which : own_face_;
  run.info = kernels::compute_on_cpu(cpu_blas_or_reference(fallback, face).get(), run.problem, run.found);
}

}  // namespace tessera::offload
