#include "offload/call_history.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "core/process.hpp"

namespace tessera::offload {
namespace {

constexpr double quiet_s = 0.2;
/// Help has to make calls so much quicker.
constexpr double worth_of_help = 0.95;
/// The part by which a call without help counts towards a trial with it, and vice versa: two in some sixty are trials.
constexpr double part_of_trial = 1.0 / 8;
/// The limit, whatever the estimates give. Two H200 do at once the work of three sequential calls of 512.
constexpr double most_calls_at_once = 4;
}  // namespace

void CallHistory::begin_anew_in_child() {
  const std::uint64_t self = process::identity();
  if (process_.exchange(self, std::memory_order_relaxed) == self) return;
  backlog_ns_.store(0, std::memory_order_relaxed);
  device_calls_.store(0, std::memory_order_relaxed);
  cpu_calls_.store(0, std::memory_order_relaxed);
  has_used_devices_.store(false, std::memory_order_relaxed);
}

void CallHistory::describe(const Work& work, bool weighed, int threads, Conditions& now) const {
  now.forgone_s = forgone_s_.load(std::memory_order_relaxed);
  now.backlog_s = backlog_s();
  now.cpu_calls = cpu_calls();
  now.device_calls = device_calls();
  const index_t volume = work.mean_volume();
  now.bias = bias_of(work).of(volume);
  if (work.of == Work::Of::product && should_help(volume) && helped_bias_.knows(volume))
    now.bias = helped_bias_.of(volume);
  if (weighed) now.cpu = cpu_speed_.estimate(work, threads);
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
    double least_s = flops_of(call) / CpuSpeed::slowest_flops_per_s;
    try {
      // Twice: the first may have to start the threads of the BLAS.
      for (int repeat = 0; repeat < 2; ++repeat) {
        const double begin_s = device::now_seconds();
        compute(call);
        least_s = std::min(least_s, device::now_seconds() - begin_s);
      }
    } catch (const NotAvailable&) {  // reference_level3 answers then, slowly
    }
    cpu_speed_.record(work_of(call), least_s, true);
  });
}

bool CallHistory::should_help(index_t volume) const {
  const DeviceBias& without = biases_[0][0];
  return without.knows(volume) &&
         (!helped_bias_.knows(volume) || helped_bias_.of(volume) < worth_of_help * without.of(volume));
}

bool CallHistory::is_quiet() const {
  return has_used_devices_.load(std::memory_order_relaxed) && cpu_calls() == 0 && backlog_s() <= 0 &&
         device::now_seconds() - last_end_s_.load(std::memory_order_relaxed) >= quiet_s;
}

CallHistory::OnCpu::OnCpu(CallHistory& history, Work::Of of) : history_(history), counts_(of != Work::Of::lapack) {
  history_.begin_anew_in_child();
  if (!counts_) return;
  others_at_begin_ = history_.cpu_calls_.fetch_add(1, std::memory_order_relaxed);
  began_beside_devices_ = history_.device_calls() > 0;
}

CallHistory::OnCpu::~OnCpu() {
  history_.last_end_s_.store(device::now_seconds(), std::memory_order_relaxed);
  if (counts_) history_.cpu_calls_.fetch_sub(1, std::memory_order_relaxed);
}

void CallHistory::OnCpu::record(const Work& work, const Decision& decision, double seconds, bool devices_are_open,
                                int threads) {
  history_.cpu_speed_.record(work, counts_ ? alone_s(seconds) : seconds, !counts_ || was_alone(), threads);
  if (decision.reason == Reason::cpu_wins)
    history_.bias_of(work).passed_over(work.mean_volume(), decision.cpu_s / decision.device_s);
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

void CallHistory::OnDevices::record(const Work& work, const Decision& decision, const Took& took) {
  note_calls_at_once(took);
  const bool is_product = work.of == Work::Of::product;
  if (decision.reason == Reason::device_wins) history_.cpu_speed_.passed_over(work, decision.device_s / decision.cpu_s);
  if (decision.model_s <= 0) return;
  const double bias = took.seconds / decision.model_s;
  const index_t volume = work.mean_volume();
  DeviceBias& mine = took.helped && is_product ? history_.helped_bias_ : history_.bias_of(work);
  // Calls that share devices slow each other down.
  if (took.beside == 0 || bias < (mine.knows(volume) ? mine.of(volume) : std::numeric_limits<double>::infinity()))
    mine.record(volume, bias, was_without_cpu());
  if (is_product) (took.helped ? history_.bias_of(work) : history_.helped_bias_).passed_over(volume, part_of_trial);
}

void CallHistory::OnDevices::note_calls_at_once(const Took& took) {
  history_.has_used_devices_.store(true, std::memory_order_relaxed);
  const double calls = 1 + 0.5 * (others_at_begin_ + history_.device_calls() - (has_left_ ? 0 : 1));
  if (calls > 1 && took.with_waiting_s > 0)
    history_.note_calls_at_once(calls * 1e-9 * static_cast<double>(ns_) / took.with_waiting_s);
}

bool CallHistory::OnDevices::was_without_cpu() const { return !began_beside_cpu_ && history_.cpu_calls() == 0; }

// Of two at the same time one may be lost.
void CallHistory::note_calls_at_once(double calls) {
  constexpr double part = 1.0 / 8;
  const double before = calls_at_once_.load(std::memory_order_relaxed);
  calls_at_once_.store(before + part * (std::min(calls, most_calls_at_once) - before), std::memory_order_relaxed);
}

}  // namespace tessera::offload
