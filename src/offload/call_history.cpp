#include "offload/call_history.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "core/process.hpp"

namespace tessera::offload {
namespace {

/// The slowest BLAS that there is: the reference on an old processor.
constexpr double slowest_flops_per_s = 1e9;
/// A call that takes no longer than this on any BLAS is not worth a probe.
constexpr double short_s = 0.05;
constexpr double quiet_s = 0.2;
/// Help has to make calls so much quicker.
constexpr double worth_of_help = 0.95;
/// The part by which a call without help counts towards a trial with it, and vice versa: one in a hundred is a trial.
constexpr double part_of_trial = 1.0 / 8;
/// The limit, whatever the estimates give. Two H200 do at once the work of three sequential calls of 512.
constexpr double most_calls_at_once = 4;
/// The time of LAPACK over that of products of as much arithmetic: as a rule, and at worst.
constexpr double usual_over_products = 1.5, slowest_over_products = 4;

}  // namespace

void CallHistory::begin_anew_in_child() {
  const std::uint64_t self = process::identity();
  if (process_.exchange(self, std::memory_order_relaxed) == self) return;
  backlog_ns_.store(0, std::memory_order_relaxed);
  device_calls_.store(0, std::memory_order_relaxed);
  cpu_calls_.store(0, std::memory_order_relaxed);
  has_used_devices_.store(false, std::memory_order_relaxed);
}

void CallHistory::describe(const Level3& call, bool weighed, Conditions& now) const {
  now.forgone_s = forgone_s_.load(std::memory_order_relaxed);
  now.forgone_calls = forgone_calls_.load(std::memory_order_relaxed);
  now.backlog_s = backlog_s();
  const index_t volume = volume_of(call);
  now.bias =
      should_help(volume) ? helped_bias_.known(volume).value_or(device_bias_.of(volume)) : device_bias_.of(volume);
  now.cpu_calls = cpu_calls();
  now.device_calls = device_calls();
  if (weighed) now.cpu = cpu_speed_.estimate(call);
}

void CallHistory::describe(const BatchDemand& batch, int threads, Conditions& now) const {
  now.forgone_s = forgone_s_.load(std::memory_order_relaxed);
  now.forgone_calls = forgone_calls_.load(std::memory_order_relaxed);
  now.backlog_s = backlog_s();
  now.bias = batch_bias_[number_of(batch.routine)].of(batch.mean_volume());
  now.cpu_calls = cpu_calls();
  now.device_calls = device_calls();
  now.cpu = batch_speed_.estimate(batch, threads);
}

void CallHistory::describe(const LapackDemand& call, bool weighed, Conditions& now) const {
  describe(product_like(call), weighed, now);
  now.bias = lapack_bias_[number_of(call.routine)].of(call.volume);
  if (const auto seen = lapack_speed_.estimate(call)) {
    now.cpu = *seen;
    return;
  }
  // This LAPACK has not been measured yet: products bound it.
  now.cpu.expected_s *= usual_over_products;
  now.cpu.most_s *= slowest_over_products;
}

std::optional<Level3> CallHistory::wanted_probe(const LapackDemand& call, double devices_s) const {
  if (lapack_speed_.estimate(call)) return std::nullopt;
  return wanted_probe(product_like(call), devices_s);
}

void CallHistory::note_on_cpu(const LapackDemand& call, const Decision& decision, double seconds,
                              bool devices_are_open) {
  begin_anew_in_child();
  last_end_s_.store(device::now_seconds(), std::memory_order_relaxed);
  lapack_speed_.record(call, seconds);
  if (decision.reason == Reason::cpu_wins)
    lapack_bias_[number_of(call.routine)].passed_over(call.volume, decision.cpu_s / decision.device_s);
  note_forgone(decision, seconds, devices_are_open);
}

std::optional<Level3> CallHistory::wanted_probe(const Level3& call, double devices_s) const {
  if (cpu_speed_.knows(call.type)) return next_probe(cpu_speed_, call, devices_s);
  // The CPU BLAS alone tells how fast it is, but even the slowest would do such a call before devices are open.
  if (flops_of(call) / slowest_flops_per_s <= std::max(devices_s, short_s)) return std::nullopt;
  constexpr index_t order = 104;  // CpuSpeed does not look at less
  static_assert(order * order * order >= CpuSpeed::least_volume);
  return Level3{.type = call.type, .m = order, .n = order, .k = order};
}

void CallHistory::time_on_cpu(const Level3& probe, const std::function<void(const Level3&)>& compute) {
  dispatch(probe.type, [&]<Scalar T>(T) {
    // Not zeros: the reference BLAS skips those.
    const std::vector<T> factors(static_cast<std::size_t>(std::max(probe.m, probe.n) * probe.k), T(0.5F));
    std::vector<T> product(static_cast<std::size_t>(probe.m * probe.n));
    Level3 call = probe;
    call.A = factors.data();
    call.lda = probe.m;
    call.B = factors.data();
    call.ldb = probe.k;
    call.C = product.data();
    call.ldc = probe.m;
    double least_s = flops_of(call) / slowest_flops_per_s;
    try {
      // Twice: the first may have to start the threads of the BLAS.
      for (int repeat = 0; repeat < 2; ++repeat) {
        const double begin_s = device::now_seconds();
        compute(call);
        least_s = std::min(least_s, device::now_seconds() - begin_s);
      }
    } catch (const NotAvailable&) {  // reference_level3 answers then, slowly
    }
    cpu_speed_.record(call, least_s, true);
  });
}

bool CallHistory::should_help(index_t volume) const {
  const std::optional<double> without = device_bias_.known(volume), with = helped_bias_.known(volume);
  return without && (!with || *with < worth_of_help * *without);
}

bool CallHistory::is_quiet() const {
  return has_used_devices_.load(std::memory_order_relaxed) && cpu_calls() == 0 && backlog_s() <= 0 &&
         device::now_seconds() - last_end_s_.load(std::memory_order_relaxed) >= quiet_s;
}

CallHistory::OnCpu::OnCpu(CallHistory& history) : history_(history) {
  history_.begin_anew_in_child();
  others_at_begin_ = history_.cpu_calls_.fetch_add(1, std::memory_order_relaxed);
  began_beside_devices_ = history_.device_calls() > 0;
}

CallHistory::OnCpu::~OnCpu() {
  history_.last_end_s_.store(device::now_seconds(), std::memory_order_relaxed);
  history_.cpu_calls_.fetch_sub(1, std::memory_order_relaxed);
}

void CallHistory::OnCpu::record(const Level3& call, index_t volume, const Decision& decision, double seconds,
                                bool devices_are_open) {
  history_.cpu_speed_.record(call, alone_s(seconds), was_alone());
  if (decision.reason == Reason::trial && !was_alone())
    history_.cpu_speed_.tried_in_vain(call, decision.cpu_s / decision.device_s - 1);
  if (decision.reason == Reason::cpu_wins)
    history_.device_bias_.passed_over(volume, decision.cpu_s / decision.device_s);
  history_.note_forgone(decision, seconds, devices_are_open);
}

void CallHistory::OnCpu::record(const BatchDemand& batch, int threads, const Decision& decision, double seconds,
                                bool devices_are_open) {
  if (was_alone() || !history_.batch_speed_.knows(batch))
    history_.batch_speed_.record(batch, alone_s(seconds), threads);
  if (decision.reason == Reason::cpu_wins)
    history_.batch_bias_[number_of(batch.routine)].passed_over(batch.mean_volume(), decision.cpu_s / decision.device_s);
  history_.note_forgone(decision, seconds, devices_are_open);
}

bool CallHistory::OnCpu::was_alone() const { return !began_beside_devices_ && history_.device_calls() == 0; }

// Calls of several threads share the processors. The time counts that one of them would have taken by itself.
double CallHistory::OnCpu::alone_s(double seconds) const {
  const int others_at_end = history_.cpu_calls() - 1;
  return seconds / (1 + 0.5 * (others_at_begin_ + others_at_end));
}

// The time lost because the devices are not open, by the time that the call really took.
void CallHistory::note_forgone(const Decision& decision, double seconds, bool devices_are_open) {
  if (devices_are_open || decision.cpu_s <= 0 || seconds <= decision.open_s) return;
  forgone_s_.fetch_add(seconds - decision.open_s, std::memory_order_relaxed);
  forgone_calls_.fetch_add(1, std::memory_order_relaxed);
}

CallHistory::OnDevices::OnDevices(CallHistory& history, double seconds)
    : history_(history), ns_(static_cast<std::int64_t>(std::min(seconds, 1e6) * 1e9)) {
  history_.begin_anew_in_child();
  began_beside_cpu_ = history_.cpu_calls() > 0;
  others_at_begin_ = history_.device_calls_.fetch_add(1, std::memory_order_relaxed);
  history_.backlog_ns_.fetch_add(ns_, std::memory_order_relaxed);
}

CallHistory::OnDevices::~OnDevices() {
  if (!has_left_) leave();
}

void CallHistory::OnDevices::leave() {
  has_left_ = true;
  history_.last_end_s_.store(device::now_seconds(), std::memory_order_relaxed);
  history_.backlog_ns_.fetch_sub(ns_, std::memory_order_relaxed);
  history_.device_calls_.fetch_sub(1, std::memory_order_relaxed);
}

void CallHistory::OnDevices::record(const Level3& call, index_t volume, const Decision& decision, const Took& took) {
  note_calls_at_once(took);
  if (decision.reason == Reason::device_wins) history_.cpu_speed_.passed_over(call);
  if (decision.model_s <= 0) return;
  const double bias = took.seconds / decision.model_s;
  DeviceBias& mine = took.helped ? history_.helped_bias_ : history_.device_bias_;
  DeviceBias& other = took.helped ? history_.device_bias_ : history_.helped_bias_;
  // Calls that share devices slow each other down.
  if (took.beside == 0 || bias < mine.known(volume).value_or(std::numeric_limits<double>::infinity()))
    mine.record(volume, bias, was_without_cpu());
  other.passed_over(volume, part_of_trial);
}

void CallHistory::OnDevices::note_calls_at_once(const Took& took) {
  history_.has_used_devices_.store(true, std::memory_order_relaxed);
  const double calls = 1 + 0.5 * (others_at_begin_ + history_.device_calls() - 1);
  if (calls > 1 && took.with_waiting_s > 0)
    history_.note_calls_at_once(calls * 1e-9 * static_cast<double>(ns_) / took.with_waiting_s);
}

void CallHistory::OnDevices::record(const LapackDemand& call, const Decision& decision, const Took& took) {
  note_calls_at_once(took);
  if (decision.reason == Reason::device_wins) history_.lapack_speed_.passed_over(call);
  if (decision.model_s <= 0) return;
  const double bias = took.seconds / decision.model_s;
  DeviceBias& known = history_.lapack_bias_[number_of(call.routine)];
  if (took.beside == 0 || bias < known.known(call.volume).value_or(std::numeric_limits<double>::infinity()))
    known.record(call.volume, bias, was_without_cpu());
}

void CallHistory::OnDevices::record(const BatchDemand& batch, const Decision& decision, double seconds) {
  history_.has_used_devices_.store(true, std::memory_order_relaxed);
  if (decision.reason == Reason::device_wins) history_.batch_speed_.passed_over(batch);
  if (decision.model_s > 0)
    history_.batch_bias_[number_of(batch.routine)].record(batch.mean_volume(), seconds / decision.model_s,
                                                          was_without_cpu());
}

bool CallHistory::OnDevices::was_without_cpu() const { return !began_beside_cpu_ && history_.cpu_calls() == 0; }

// Of two at the same time one may be lost.
void CallHistory::note_calls_at_once(double calls) {
  constexpr double part = 1.0 / 8;
  const double before = calls_at_once_.load(std::memory_order_relaxed);
  calls_at_once_.store(before + part * (std::min(calls, most_calls_at_once) - before), std::memory_order_relaxed);
}

}  // namespace tessera::offload
