// The record of past calls, and the calls that are under way.
#include "offload/call_history.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace tessera::offload {
namespace call_history_test {

Level3 square(index_t n) { return {.m = n, .n = n, .k = n}; }

Conditions situation(const CallHistory& history, const Level3& call) {
  Conditions now;
  history.describe(work_of(call), true, 1, now);
  return now;
}

/// The decision on a call that stays on the CPU, for which open devices would take a tenth of its time.
Decision forgoing(double cpu_s) {
  Decision decision{false, Reason::start_up};
  decision.cpu_s = cpu_s;
  decision.open_s = 0.1 * cpu_s;
  return decision;
}

TEST(CallHistory, CountsWhatClosedDevicesCost) {
  CallHistory history(4);
  const Level3 call = square(1000);
  const auto compute = [&](double seconds, bool open) {
    CallHistory::OnCpu(history).record(work_of(call), forgoing(1), seconds, open);
  };
  compute(2, false);
  EXPECT_NEAR(situation(history, call).forgone_s, 1.9, 1e-12);
  compute(2, true);
  compute(0.05, false);  // the CPU was quicker than devices would have been
  EXPECT_NEAR(situation(history, call).forgone_s, 1.9, 1e-12);
  CallHistory::OnCpu(history).record(work_of(call), {false, Reason::never}, 5, false);
  Decision slow_devices{false,
                        Reason::cpu_wins};  // a call that takes longer than expected, and on devices longer still
  slow_devices.cpu_s = 1;
  slow_devices.open_s = 10;
  CallHistory::OnCpu(history).record(work_of(call), slow_devices, 1.5, false);
  EXPECT_NEAR(situation(history, call).forgone_s, 1.9, 1e-12);
}

TEST(CallHistory, KnowsWhoIsUnderWay) {
  CallHistory history(4);
  const Level3 call = square(1000);
  {
    const CallHistory::OnCpu one(history), other(history);
    const CallHistory::OnDevices third(history, 0.25), fourth(history, 0.5);
    EXPECT_EQ(situation(history, call).cpu_calls, 2);
    EXPECT_EQ(situation(history, call).device_calls, 2);
    EXPECT_NEAR(situation(history, call).backlog_s, 0.75, 1e-8);
  }
  EXPECT_EQ(situation(history, call).cpu_calls, 0);
  EXPECT_EQ(situation(history, call).device_calls, 0);
  EXPECT_EQ(situation(history, call).backlog_s, 0);
}

TEST(CallHistory, CallsOfAParentAreNotUnderWayInItsChild) {
  CallHistory history(4);
  const CallHistory::OnCpu one(history), other(history);
  const CallHistory::OnDevices third(history, 0.25);
  const pid_t child = fork();
  if (child == 0) {
    const CallHistory::OnCpu own(history);
    const bool alone = situation(history, square(1000)).device_calls == 0 && history.backlog_s() <= 0;
    _exit(history.cpu_calls() == 1 && alone ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(history.cpu_calls(), 2);
}

// A call that shared the processors with two others says the same of the CPU BLAS as one that took a third of the time by itself.
TEST(CallHistory, TheSpeedOfTheCpuIsThatOfACallByItself) {
  CallHistory alone(4), shared(4);
  const Level3 call = square(1000);
  CallHistory::OnCpu(alone).record(work_of(call), forgoing(1), 1, false);
  {
    const CallHistory::OnCpu one(shared), other(shared);
    CallHistory::OnCpu(shared).record(work_of(call), forgoing(1), 3, false);
  }
  EXPECT_FLOAT_EQ(static_cast<float>(situation(shared, call).cpu.expected_s),
                  static_cast<float>(situation(alone, call).cpu.expected_s));
}

// Once it is known what such a call takes by itself, or nearly.
TEST(CallHistory, WhatACallTakesBesideOthersOnItsDevicesDoesNotCount) {
  CallHistory history(4);
  const Level3 call = square(1000);
  Decision decision{true, Reason::device_wins};
  decision.model_s = 1;
  const auto compute = [&](double seconds, int beside) {
    CallHistory::OnDevices(history, 1).record(work_of(call), decision, {.seconds = seconds, .beside = beside});
    return static_cast<float>(situation(history, call).bias);
  };
  compute(4, 2);
  EXPECT_FLOAT_EQ(compute(4, 2), 4) << "nothing else is known";
  EXPECT_LT(compute(2, 1), 4) << "it is no slower by itself";
  const float known = compute(2, 0);
  EXPECT_FLOAT_EQ(compute(8, 1), known);
  EXPECT_GT(compute(8, 0), known);
}

// Of calls that take as long together as one does by itself nobody waits for all the others.
TEST(CallHistory, CallsThatShareDevicesMakeTheBacklogShorter) {
  CallHistory history(4);
  const Level3 call = square(1000);
  Decision decision{true, Reason::device_wins};
  decision.model_s = 1;
  const auto backlog_of_three = [&](double seconds) {
    double backlog_s = 0;
    for (int round = 0; round < 40; ++round) {
      CallHistory::OnDevices first(history, 1), second(history, 1), third(history, 1);
      backlog_s = history.backlog_s();
      for (CallHistory::OnDevices* each : {&first, &second, &third})
        each->record(work_of(call), decision, {.seconds = seconds, .beside = 2, .with_waiting_s = seconds});
    }
    return backlog_s;
  };
  const double at_once_s = backlog_of_three(1), one_by_one_s = backlog_of_three(3);
  EXPECT_LT(at_once_s, 1.7);
  EXPECT_GT(one_by_one_s, 2.9);
  EXPECT_EQ(history.backlog_s(), 0);
}

// The processors that carry the devices' operands were busy then. If devices were thought slow for it, more calls would go to the CPU, and
// make them slower still.
TEST(CallHistory, WhatDevicesTakeBesideACallOnTheCpuDoesNotCount) {
  CallHistory history(4);
  const Level3 call = square(1000);
  Decision decision{true, Reason::device_wins};
  decision.model_s = 1;
  const auto compute = [&](double seconds) {
    CallHistory::OnDevices(history, 1).record(work_of(call), decision, {.seconds = seconds});
  };
  for (int i = 0; i < 4; ++i) compute(2);
  EXPECT_FLOAT_EQ(static_cast<float>(situation(history, call).bias), 2);
  {
    const CallHistory::OnCpu other(history);
    compute(8);
  }
  {
    CallHistory::OnDevices until_later(history, 1);
    const CallHistory::OnCpu other(history);
    until_later.record(work_of(call), decision, {.seconds = 8});
  }
  {
    std::optional<CallHistory::OnCpu> earlier(history);
    CallHistory::OnDevices after_it(history, 1);
    earlier.reset();
    after_it.record(work_of(call), decision, {.seconds = 8});
  }
  EXPECT_FLOAT_EQ(static_cast<float>(situation(history, call).bias), 2);
  compute(8);
  EXPECT_GT(situation(history, call).bias, 2);
}

// The same for the CPU; but where nothing is known, that is better than nothing.
TEST(CallHistory, WhatTheCpuTakesBesideDevicesCountsIfNothingElseIsKnown) {
  CallHistory history(4);
  const Level3 call = square(1000);
  const auto compute = [&](double seconds) {
    CallHistory::OnCpu(history).record(work_of(call), forgoing(1), seconds, true);
  };
  {
    const CallHistory::OnDevices other(history, 1);
    compute(4);
    EXPECT_NEAR(situation(history, call).cpu.expected_s, 4, 1e-6);
    compute(8);
    EXPECT_NEAR(situation(history, call).cpu.expected_s, 4, 1e-6);
  }
  {
    CallHistory::OnCpu until_later(history);
    const CallHistory::OnDevices other(history, 1);
    until_later.record(work_of(call), forgoing(1), 8, true);
  }
  EXPECT_NEAR(situation(history, call).cpu.expected_s, 4, 1e-6);
  compute(2);
  EXPECT_LT(situation(history, call).cpu.expected_s, 3);
}

TEST(CallHistory, IsQuietAMomentAfterDevicesWereUsed) {
  CallHistory history(4);
  const Level3 call = square(1000);
  EXPECT_FALSE(history.is_quiet());
  const auto becomes_quiet = [&] {
    for (int i = 0; i < 30000 && !history.is_quiet(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return history.is_quiet();
  };
  {
    CallHistory::OnDevices job(history, 0.1);
    job.record(work_of(call), {true, Reason::always}, {.seconds = 0.1});
    EXPECT_FALSE(history.is_quiet());
  }
  EXPECT_FALSE(history.is_quiet());  // this very moment
  EXPECT_TRUE(becomes_quiet());
  {
    const CallHistory::OnCpu computing(history);
    EXPECT_FALSE(history.is_quiet());
  }
  EXPECT_TRUE(becomes_quiet());
}

TEST(CallHistory, OnlyWhatMayTakeLongIsProbed) {
  CallHistory history(16);
  EXPECT_FALSE(
      history.cpu_speed().next_probe(work_of(square(512)), 0.3));  // done before devices are open, by whatever BLAS
  const auto first = history.cpu_speed().next_probe(work_of(square(1024)), 0.3);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->m, 104);
  EXPECT_TRUE(history.cpu_speed().next_probe(work_of(square(512)), 0));
  EXPECT_FALSE(history.cpu_speed().next_probe(work_of(square(256)), 0));
  std::vector<Level3> timed;
  history.time_on_cpu(*first, [&](const Level3& call) { timed.push_back(call); });
  EXPECT_EQ(timed.size(), 2u);
  EXPECT_TRUE(history.cpu_speed().knows(ScalarType::d));
  // Without a CPU BLAS, what answers is as slow as can be.
  CallHistory without(16);
  without.time_on_cpu(*first, [](const Level3&) { throw NotAvailable("no BLAS"); });
  EXPECT_NEAR(flops_of(*first) / situation(without, *first).cpu.expected_s, 1e9, 1e3);
}

}  // namespace call_history_test
}  // namespace tessera::offload
