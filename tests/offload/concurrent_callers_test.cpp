// Threads that call again and again, in virtual time: what the decision and what it remembers make of them together.
//
// The model: devices compute one call at a time, in the order of arrival. The CPU BLAS divides its speed among its calls. While both are at
// work, each slows the other down by a factor. Devices that are not open yet start half as quickly beside calls on the CPU. Figures are those of
// one H200 beside OpenBLAS on 16 processors, and of two on 32.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "offload/call_history.hpp"
#include "offload/policy.hpp"

namespace tessera::offload {
namespace concurrent_callers_test {

struct Machine {
  int devices = 1;          ///< H200s, which share each call
  double devices_s = 0;     ///< of a call by itself
  double cpu_s = 0;         ///< likewise
  double devices_slow = 1;  ///< how many times as long devices take beside a call on the CPU
  double cpu_slow = 1;      ///< and the other way round
  double helped_s = 0;      ///< of a call on devices with which the CPU helps; 0: it never does
  double start_s = 0;       ///< of the start of devices by itself; 0: they are open
};

class Callers {
 public:
  Callers(const Machine& machine, index_t n, int count, OffloadRule rule)
      : machine_(machine), rule_(rule), callers_(static_cast<std::size_t>(count)), start_left_s_(machine.start_s) {
    call_.m = call_.n = call_.k = n;
  }

  /// Calls per second, those before `warm_s` not counted.
  double calls_per_s(double seconds, double warm_s = 1) {
    for (Caller& caller : callers_) begin(caller);
    int counted = 0;
    while (now_s_ < warm_s + seconds) {
      Caller& next = advance();
      if (now_s_ >= warm_s && !next.awaits_start) ++counted;
      end(next);
      begin(next);
      next.awaits_start = next.awaits_start && !next.on_cpu && !next.on_devices;
    }
    return counted / (now_s_ - warm_s);
  }

 private:
  struct Caller {
    Decision decision;
    double left_s = 0;   ///< of its work, by itself
    double begun_s = 0;  ///< of its computation
    double arrived_s = 0;
    bool helped = false;
    bool awaits_start = false;
    double patience_s = 0;  ///< with it
    int turn = 0;           ///< among those on devices
    std::optional<CallHistory::OnDevices> on_devices;
    std::optional<CallHistory::OnCpu> on_cpu;
  };

  /// The first calls on devices load kernels, and fill pools of memory.
  static constexpr int slow_calls = 6;
  static constexpr double slow_factor = 5;

  void begin(Caller& caller) {
    Conditions now;
    now.rates = rough_rates(machine_.devices, 50e12 * machine_.devices, 50e9 * machine_.devices);
    now.rates.start_up_s = machine_.start_s;
    if (start_left_s_ > 0) now.until_open_s = std::max(start_left_s_, 0.1 * machine_.start_s);
    now.is_opening = starting_;
    history_.describe(work_of(call_), true, 1, now);
    caller.decision = decide(rule_, work_of(call_), now);
    if (caller.decision.earns_start) starting_ = true;
    caller.begun_s = caller.arrived_s = now_s_;
    if (caller.decision.offload && start_left_s_ > 0 && !caller.awaits_start) {
      caller.awaits_start = true;
      const bool opens = !starting_ || rule_.when == Offload::always;
      caller.patience_s =
          opens ? std::numeric_limits<double>::infinity() : std::max(caller.decision.cpu_s, caller.decision.wait_s);
      starting_ = true;
    } else if (caller.decision.offload && start_left_s_ <= 0) {
      caller.turn = ++turns_;
      caller.helped = machine_.helped_s > 0 && history_.cpu_calls() == 0 && history_.device_calls() == 0 &&
                      history_.should_help(volume_of(call_));
      caller.left_s =
          (caller.helped ? machine_.helped_s : machine_.devices_s) * (caller.turn <= slow_calls ? slow_factor : 1);
      caller.on_devices.emplace(history_, caller.decision.device_s - caller.decision.wait_s);
    } else {
      caller.left_s = machine_.cpu_s;
      caller.on_cpu.emplace(history_);
    }
  }

  void end(Caller& caller) {
    const double took_s = now_s_ - caller.begun_s;
    if (caller.awaits_start) {
      // decided once more
    } else if (caller.on_devices) {
      caller.on_devices->record(
          work_of(call_), caller.decision,
          {.seconds = took_s, .helped = caller.helped, .with_waiting_s = now_s_ - caller.arrived_s});
      caller.on_devices.reset();
    } else {
      caller.on_cpu->record(work_of(call_), caller.decision, took_s, start_left_s_ <= 0);
      caller.on_cpu.reset();
    }
  }

  /// Lets time pass until a call has ended.
  Caller& advance() {
    const auto on_cpu = static_cast<double>(
        std::count_if(callers_.begin(), callers_.end(), [](const Caller& c) { return c.on_cpu.has_value(); }));
    Caller* first = nullptr;
    for (Caller& c : callers_) {
      if (c.on_devices && (first == nullptr || c.turn < first->turn)) first = &c;
    }
    if (first != nullptr && first->turn != served_) {
      served_ = first->turn;
      first->begun_s = now_s_;  // its own time does not include waiting
    }
    const double per_cpu_call = 1 / std::max(on_cpu, 1.0) / (first != nullptr ? machine_.cpu_slow : 1);
    const double of_devices = on_cpu > 0 ? 1 / machine_.devices_slow : 1;
    const auto speed = [&](const Caller& c) { return c.on_cpu ? per_cpu_call : &c == first ? of_devices : 0; };
    const double of_start = on_cpu > 0 ? 0.5 : 1;
    Caller* next = nullptr;
    double wait_s = std::numeric_limits<double>::infinity();
    for (Caller& c : callers_) {
      if (!c.awaits_start) continue;
      const double ends_s = std::min(c.patience_s, std::max(start_left_s_, 0.0) / of_start);
      if (ends_s < wait_s) wait_s = ends_s, next = &c;
    }
    for (Caller& c : callers_) {
      if (speed(c) > 0 && c.left_s / speed(c) < wait_s) wait_s = c.left_s / speed(c), next = &c;
    }
    for (Caller& c : callers_) {
      c.left_s -= wait_s * speed(c);
      if (c.awaits_start) c.patience_s -= wait_s;
    }
    if (starting_) start_left_s_ -= wait_s * of_start;
    if (start_left_s_ < 1e-9) start_left_s_ = 0;
    now_s_ += wait_s;
    return *next;
  }

  Machine machine_;
  OffloadRule rule_;
  Level3 call_;
  CallHistory history_{16};
  std::vector<Caller> callers_;
  double start_left_s_;
  bool starting_ = false;
  double now_s_ = 0;
  int turns_ = 0;
  int served_ = 0;
};

class ConcurrentCallers : public testing::TestWithParam<std::pair<index_t, Machine>> {};

TEST_P(ConcurrentCallers, GetNearlyWhatTheBetterSideGives) {
  const auto [n, machine] = GetParam();
  for (const int count : {1, 2, 4, 8, 16, 32}) {
    const auto rate = [&](Offload when) { return Callers(machine, n, count, {when}).calls_per_s(4); };
    const double better = std::max(rate(Offload::always), rate(Offload::never));
    // Where both sides are nearly as quick, many callers lose a little more: the CPU's speed is not seen exactly.
    EXPECT_GE(rate(Offload::automatic), (count <= 8 ? 0.9 : 0.85) * better) << count << " callers";
  }
}

// How much each slows the other down is known for 2048 only: 3 and 1.3 times.
INSTANTIATE_TEST_SUITE_P(H200, ConcurrentCallers,
                         testing::Values(std::pair(512, Machine{1, 0.8e-3, 0.7e-3, 1, 1}),
                                         std::pair(512, Machine{1, 0.8e-3, 0.7e-3, 1.5, 1.3}),
                                         std::pair(512, Machine{1, 0.8e-3, 0.7e-3, 3, 1.3}),
                                         std::pair(512, Machine{1, 0.85e-3, 0.53e-3, 3, 1.3}),  // 32 processors
                                         std::pair(512, Machine{2, 0.6e-3, 0.85e-3, 3, 1.3}),
                                         std::pair(1024, Machine{1, 1.4e-3, 3.8e-3, 3, 1.3}),
                                         std::pair(2048, Machine{1, 4e-3, 28e-3, 1, 1}),
                                         std::pair(2048, Machine{1, 4e-3, 28e-3, 3, 1.3}),
                                         std::pair(2048, Machine{1, 4.2e-3, 18e-3, 3, 1.3}),
                                         std::pair(2048, Machine{2, 4.2e-3, 20e-3, 3, 1.3}),
                                         std::pair(8192, Machine{1, 33e-3, 1, 3, 1.3}),
                                         std::pair(8192, Machine{2, 20e-3, 0.6, 3, 1.3})));

/// The start, which takes twice as long beside calls, must not reach far into the time that counts.
class CallersBeforeTheStart : public ConcurrentCallers {};
TEST_P(CallersBeforeTheStart, GetNearlyWhatTheBetterSideGives) {
  const auto [n, machine] = GetParam();
  for (const int count : {1, 4, 8}) {
    const auto rate = [&](Offload when) { return Callers(machine, n, count, {when}).calls_per_s(3, 1.5); };
    const double better = std::max(rate(Offload::always), rate(Offload::never));
    EXPECT_GE(rate(Offload::automatic), 0.9 * better) << count << " callers";
  }
}
INSTANTIATE_TEST_SUITE_P(H200, CallersBeforeTheStart,
                         testing::Values(std::pair(512, Machine{1, 0.8e-3, 0.56e-3, 3, 1.3, 0, 0.3}),
                                         std::pair(512, Machine{2, 0.8e-3, 0.56e-3, 3, 1.3, 0, 0.5}),
                                         std::pair(2048, Machine{1, 4.2e-3, 18e-3, 3, 1.3, 0, 0.3}),
                                         std::pair(2048, Machine{2, 4.2e-3, 20e-3, 3, 1.3, 0, 0.5}),
                                         std::pair(8192, Machine{1, 33e-3, 1, 3, 1.3, 0, 0.3}),
                                         std::pair(8192, Machine{2, 21e-3, 1.1, 3, 1.3, 0, 0.5})));

/// Two H200: with the help of the CPU, which also carries operands, a call took twice as long.
TEST(CallerWithHelp, GetsNearlyWhatTheBetterWayGives) {
  constexpr index_t n = 2048;
  const Machine alone{2, 4.4e-3, 19e-3, 3, 1.3};
  for (const double helped_s : {9e-3, 6e-3, 4.4e-3, 3e-3, 2e-3}) {
    Machine machine = alone;
    machine.helped_s = helped_s;
    const double rate = Callers(machine, n, 1, {Offload::automatic}).calls_per_s(4);
    EXPECT_GE(rate, 0.9 / std::min(helped_s, alone.devices_s)) << helped_s;
  }
}

TEST(CallHistory, HelpIsTriedOnceDevicesAreKnownAndAgainNowAndThen) {
  CallHistory history(16);
  Level3 call;
  call.m = call.n = call.k = 2048;
  const index_t volume = volume_of(call);
  const Decision decision{.offload = true, .reason = Reason::device_wins, .device_s = 4e-3, .model_s = 4e-3};
  const auto calls = [&](int count, double seconds, bool helped) {
    for (int i = 0; i < count; ++i)
      CallHistory::OnDevices(history, 4e-3).record(work_of(call), decision, {.seconds = seconds, .helped = helped});
  };
  EXPECT_FALSE(history.should_help(volume));
  calls(2, 4e-3, false);
  EXPECT_TRUE(history.should_help(volume));
  calls(2, 6e-3, true);
  EXPECT_FALSE(history.should_help(volume));
  Conditions now;
  history.describe(work_of(call), false, 1, now);
  EXPECT_NEAR(now.bias, 1, 1e-6);
  // First tried again soon, then ever more seldom.
  for (const int pause : {8, 16, 32, 64, 64}) {
    calls(pause - 1, 4e-3, false);
    EXPECT_FALSE(history.should_help(volume)) << pause;
    calls(1, 4e-3, false);
    EXPECT_TRUE(history.should_help(volume)) << pause;
    calls(2, 6e-3, true);
    EXPECT_FALSE(history.should_help(volume)) << pause;
  }
  calls(64, 4e-3, false);  // perhaps it is another program by now
  calls(2, 2e-3, true);
  EXPECT_TRUE(history.should_help(volume));
  history.describe(work_of(call), false, 1, now);
  EXPECT_NEAR(now.bias, 0.5, 1e-6);
}

}  // namespace concurrent_callers_test
}  // namespace tessera::offload
