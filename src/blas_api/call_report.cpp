#include "blas_api/call_report.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <string>

#include "core/file.hpp"
#include "core/log.hpp"

namespace tessera::api {
namespace {

/// The letters of the Fortran call, in its order, and the sizes: "dtrsm LUNN m=20 n=30".
std::string describe(const Level3& call) {
  std::string text = name_of(call) + ' ';
  const auto op = [](Op o) { return "NTC"[static_cast<std::size_t>(o)]; };
  if (call.routine == Routine::gemm) {
    text += {op(call.op_a), op(call.op_b)};
  } else {
    if (!call.updates_triangle()) text += call.side == Side::left ? 'L' : 'R';
    text += call.uplo == Uplo::lower ? 'L' : 'U';
    if (call.updates_triangle() || call.is_triangular()) text += op(call.op_a);
    if (call.has_op_b()) text += op(call.op_b);
    if (call.is_triangular()) text += call.diag == Diag::unit ? 'U' : 'N';
  }
  if (!call.updates_triangle()) text += fmt::format(" m={}", call.m);
  text += fmt::format(" n={}", call.n);
  if (call.has_k()) text += fmt::format(" k={}", call.k);
  return text;
}

/// Likewise: "dpotrf L n=20", "dgetrs T n=20 nrhs=3".
std::string describe(const LapackCall& call) {
  std::string text = name_of(call);
  if (is_hermitian(call.routine)) text += call.uplo == Uplo::lower ? " L" : " U";
  if (call.routine == LapackCallRoutine::getrs) text += {' ', "NTC"[static_cast<std::size_t>(call.op)]};
  if (has_m(call.routine)) text += fmt::format(" m={}", call.m);
  text += fmt::format(" n={}", call.n);
  if (solves(call.routine)) text += fmt::format(" nrhs={}", call.nrhs);
  return text;
}

/// Likewise, with what is asked for: "dsyevd VL n=20", "dgesdd SS m=20 n=30", "dormqr LT m=20 n=30 k=20", "dgels N m=30 n=20 nrhs=2".
std::string describe(const DenseProblem& p) {
  using enum DenseRoutine;
  std::string letters;
  const bool has_op = multiplies_by_reflectors(p.routine) || p.routine == gels || p.routine == trtrs;
  const bool has_jobs = is_svd(p.routine);
  const bool has_triangle = is_hermitian(p.routine) || p.routine == unmtr || (p.routine >= trtrs && p.routine != getri);
  if (has_jobs) {
    for (const VectorJob job : {p.u, p.vt}) letters += "NSAO"[static_cast<std::size_t>(job)];
  } else if (is_hermitian(p.routine) || p.routine == geev) {
    letters += p.vectors ? 'V' : 'N';
  }
  if (multiplies_by_reflectors(p.routine)) letters += p.side == Side::left ? 'L' : 'R';
  if (has_triangle) letters += p.uplo == Uplo::lower ? 'L' : 'U';
  if (has_op) letters += p.op == Op::no_trans ? 'N' : is_complex(p.type) && p.op == Op::conj_trans ? 'C' : 'T';
  if (p.routine == trtri || p.routine == trtrs) letters += p.diag == Diag::unit ? 'U' : 'N';
  const bool has_m = has_jobs || has_op || p.routine == ungqr || p.routine == gelsd;
  std::string text = name_of(p) + (letters.empty() ? "" : ' ' + letters);
  if (has_m && p.routine != trtrs) text += fmt::format(" m={}", p.m);
  text += fmt::format(" n={}", p.n);
  if (is_least_squares(p.routine) || p.routine == trtrs)
    text += fmt::format(" nrhs={}", p.k);
  else if (has_m && !has_jobs && p.routine != unmtr)
    text += fmt::format(" k={}", p.k);
  return text;
}

/// "dgemm_batch of 100000 products, 2 forms, mean of m*n*k 32^3", "dgesv_batch of 1000 problems, 1 form, mean of n 24"
std::string describe(const BatchDemand& batch) {
  const bool is_lapack = batch.routine.is_lapack();
  const auto plural = [](index_t count) { return count == 1 ? "" : "s"; };
  const std::string mean = is_lapack
                               ? fmt::format("n {:.0f}", batch.mean_order())
                               : fmt::format("m*n*k {:.0f}^3", std::cbrt(static_cast<double>(batch.mean_volume())));
  return fmt::format("{}{}_batch of {} {}{}, {} form{}, mean of {}", letter(batch.type), batch.routine.name(),
                     batch.problems, is_lapack ? "problem" : "product", plural(batch.problems), batch.forms,
                     plural(batch.forms), mean);
}

void log_call(const std::string& what, double flops, const std::string& where, const Verdict& verdict,
              const CallSummary::Took& took) {
  const std::string start =
      took.start_s > 0 ? fmt::format(", {:.6f} s of it waiting for devices to start", took.start_s) : "";
  log_line(fmt::format("{} on {} ({}): {:.6f} s{}, {:.3f} TFLOP/s", what, where, to_text(verdict), took.seconds, start,
                       took.seconds > 0 ? flops / took.seconds * 1e-12 : 0.0));
}

/// A program of many small calls seems to hang where all of them must go to devices.
void count_sent_in_vain(index_t volume, const Verdict& verdict) {
  constexpr std::uint64_t many = 1000;
  static std::atomic<std::uint64_t> calls = 0;  // of the process; orders nothing
  if (verdict.reason != Reason::always || volume >= tiny_volume) return;
  if (calls.fetch_add(1, std::memory_order_relaxed) + 1 != many) return;
  log_line(
      fmt::format("{} calls that are too small for devices went there by TESSERA_OFFLOAD=always, where each takes "
                  "longer than on the "
                  "CPU: a number N in place of \"always\" leaves calls of m*n*k < N^3 to the CPU",
                  many));
}

CallSummary::Took took(const CallTime& time) { return {time.seconds(), time.start_s()}; }
CallSummary::Took took(const runtime::JobStatistics& job) { return {job.seconds, job.start_s}; }

void log_start_up(const runtime::StartUp& start_up) {
  log_line(fmt::format(
      "devices were found in {:.3f} s, opened in {:.3f} s, their memory reserved in {:.3f} s; first kernel {:.3f} s "
      "after the call",
      start_up.load_s, start_up.open_s, start_up.reserve_s, start_up.first_kernel_s));
}

/// One line appended in one write, so that the lines of several processes do not mix.
void append_line(const std::string& file, std::string line) {
  line += '\n';
  OutputFile output(file, OutputFile::Use::append);
  if (!output || !output.write(line)) log_line_once(fmt::format("cannot write TESSERA_STATS={}:", file), output.why());
}

}  // namespace

CallReport::CallReport(const Config& config)
    : config_(config), summary_(config.summary ? &CallSummary::of_process(*config.summary) : nullptr) {}

void CallReport::on_cpu(const Level3& call, index_t volume, const Verdict& verdict, const CallTime& time, Is is) const {
  if (config_.verbose) log_call(describe(call), flops_of(call), "the CPU BLAS", verdict, took(time));
  if (summary_ != nullptr && is == Is::call) summary_->record(call, volume, verdict, took(time));
}

template <class Call>
void CallReport::on_cpu(const Call& call, const LapackDemand& demand, const Verdict& verdict,
                        const CallTime& time) const {
  if (config_.verbose) log_call(describe(call), demand.work.flops, "the CPU's LAPACK", verdict, took(time));
  if (summary_ != nullptr) summary_->record(demand, verdict, took(time));
}

template <class Call>
void CallReport::on_devices(const Call& call, const LapackDemand& demand, const Verdict& verdict,
                            const runtime::JobStatistics& job) const {
  tell_of_devices(config_.verbose ? describe(call) : "", demand.work.flops, verdict, job);
  if (config_.verbose) count_sent_in_vain(demand.volume, verdict);
  if (summary_ != nullptr) summary_->record(demand, verdict, took(job));
}

#define TESSERA_LAPACK_REPORT(Call)                                                                          \
  template void CallReport::on_cpu(const Call&, const LapackDemand&, const Verdict&, const CallTime&) const; \
  template void CallReport::on_devices(const Call&, const LapackDemand&, const Verdict&,                     \
                                       const runtime::JobStatistics&) const;
TESSERA_LAPACK_REPORT(LapackCall)
TESSERA_LAPACK_REPORT(DenseProblem)
#undef TESSERA_LAPACK_REPORT

void CallReport::on_cpu(const BatchDemand& batch, const Verdict& verdict, const CallTime& time) const {
  if (config_.verbose) log_call(describe(batch), batch.flops, "the CPU BLAS", verdict, took(time));
  if (summary_ != nullptr) summary_->record(batch, verdict, took(time));
}

void CallReport::on_devices(const BatchDemand& batch, const Verdict& verdict, const runtime::JobStatistics& job) const {
  tell_of_devices(config_.verbose ? describe(batch) : "", batch.flops, verdict, job);
  if (summary_ != nullptr) summary_->record(batch, verdict, took(job));
}

void CallReport::on_devices(const Level3& call, index_t volume, const Verdict& verdict,
                            const runtime::JobStatistics& job, Is is) const {
  tell_of_devices(config_.verbose ? describe(call) : "", flops_of(call), verdict, job);
  if (config_.verbose) count_sent_in_vain(volume, verdict);
  if (summary_ != nullptr && is == Is::call) summary_->record(call, volume, verdict, took(job));
}

void CallReport::tell_of_devices(const std::string& what, double flops, const Verdict& verdict,
                                 const runtime::JobStatistics& job) const {
  if (config_.verbose) {
    std::string where;
    for (const runtime::DeviceStatistics& device : job.devices) where += (where.empty() ? "" : ",") + device.device;
    log_call(what, flops, where, verdict, took(job));
    if (job.start_up) log_start_up(*job.start_up);
  }
  if (!config_.stats_file.empty()) append_line(config_.stats_file, runtime::to_json(job));
}

}  // namespace tessera::api
