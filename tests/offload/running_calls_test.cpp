// The list of calls under way, and how far they are.
#include "offload/running_calls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "tessera/lapack.h"
#include "tessera/tessera.hpp"

namespace tessera::offload {
namespace running_calls_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const RunningCallState& call : running_calls()) all.push_back(call.what);
  return all;
}

RunningCall call_named(const std::string& name, bool is_part = false) {
  return {[name] { return name; }, device::now_seconds(), 1e9, true, is_part};
}

TEST(RunningCalls, AreThoseThatLive) {
  EXPECT_THAT(names(), SizeIs(0));
  {
    const RunningCall first = call_named("first");
    const RunningCall part = call_named("part", true);
    {
      const RunningCall last = call_named("last");
      EXPECT_THAT(names(), testing::ElementsAre("last", "part", "first"));
    }
    EXPECT_THAT(names(), testing::ElementsAre("part", "first"));
    EXPECT_TRUE(running_calls()[0].is_part);
    EXPECT_FALSE(running_calls()[1].is_part);
    EXPECT_EQ(running_calls()[1].thread, gettid());
  }
  EXPECT_THAT(names(), SizeIs(0));
}

TEST(RunningCalls, ThatBeganFirstMayEndFirst) {
  std::optional<RunningCall> first, second;
  std::thread([&] { first.emplace([] { return "first"; }, 1, 0, false, false); }).join();
  std::thread([&] { second.emplace([] { return "second"; }, 1, 0, false, false); }).join();
  std::thread([&] { first.reset(); }).join();
  EXPECT_THAT(names(), testing::ElementsAre("second"));
  std::thread([&] { second.reset(); }).join();
  EXPECT_THAT(names(), SizeIs(0));
}

TEST(RunningCalls, TellTheirJobsProgress) {
  const RunningCall whole = call_named("whole");
  EXPECT_EQ(running_calls()[0].done, std::nullopt);
  double left = 10;
  {
    const runtime::Progress::Source job(10, [&left] { return left; });
    EXPECT_EQ(running_calls()[0].done, 0.0);
    left = 4;
    EXPECT_DOUBLE_EQ(*running_calls()[0].done, 0.6);
    left = -1e-9;  // by rounding
    EXPECT_EQ(running_calls()[0].done, 1.0);
    {
      const RunningCall part = call_named("part", true);
      const runtime::Progress::Source of_part(2, [] { return 1.0; });
      EXPECT_DOUBLE_EQ(*running_calls()[0].done, 0.5);
      EXPECT_EQ(running_calls()[1].done, 1.0);
    }
  }
  EXPECT_EQ(running_calls()[0].done, std::nullopt);
  const runtime::Progress::Source nothing(0, [] { return 0.0; });
  EXPECT_EQ(running_calls()[0].done, std::nullopt);
}

TEST(RunningCalls, AJobWithoutACallTellsNobody) {
  const runtime::Progress::Source job(10, [] { return 1.0; });
  EXPECT_THAT(names(), SizeIs(0));
}

TEST(RunningCalls, AsJson) {
  EXPECT_EQ(to_json({}), "[]");
  EXPECT_EQ(
      to_json({{"dgemm NN m=2 n=3 k=4", 1.5, 2e9, 0.25, true, false, 7},
               {"dgetrs N n=2 nrhs=1", 1, 0, std::nullopt, false, true, 8}}),
      R"([{"what": "dgemm NN m=2 n=3 k=4", "seconds": 1.500000, "flops": 2e+09, "done": 0.250000, "on_devices": true, )"
      R"("is_part": false, "thread": 7}, {"what": "dgetrs N n=2 nrhs=1", "seconds": 1.000000, "flops": 0, "done": null, )"
      R"("on_devices": false, "is_part": true, "thread": 8}])");
}

std::string told() {
  std::size_t needed = 0;
  EXPECT_EQ(tessera_running_calls(nullptr, 0, &needed), TESSERA_SUCCESS);
  std::string text(needed + 1000, '\0');
  EXPECT_EQ(tessera_running_calls(text.data(), text.size(), &needed), TESSERA_SUCCESS);
  return text.substr(0, needed - 1);
}

/// Runs calls on a slow device until one of them was seen half way: the kinds of graphs keep different books.
template <class Call>
void expect_seen_on_the_way(const char* what, const Call& call) {
  const Context context(
      "TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=always TESSERA_TILE=64 TESSERA_HOST_DEVICE=speed=0.5GFLOP/s");
  for (bool seen = false; !seen;) {
    std::atomic<bool> has_ended = false;
    std::thread caller([&] {
      call(context);
      has_ended = true;
    });
    while (!has_ended) {
      for (const RunningCallState& each : running_calls()) {
        EXPECT_THAT(each.what, HasSubstr(what));
        EXPECT_TRUE(each.on_devices);
        if (!each.done) continue;
        EXPECT_GE(*each.done, 0);
        EXPECT_LE(*each.done, 1);
        seen = seen || (*each.done > 0 && *each.done < 1);
      }
      std::this_thread::yield();
    }
    caller.join();
    EXPECT_EQ(told(), "[]");
  }
}

TEST(RunningCalls, OfProductsAndFactorizationsAreSeenOnTheWay) {
  constexpr std::int64_t n = 320;
  std::vector<double> A(n * n, 1), B(n * n, 1), C(n * n);
  for (std::int64_t i = 0; i < n; ++i) A[static_cast<std::size_t>(i * (n + 1))] = n;
  expect_seen_on_the_way("dgemm", [&](const Context& context) {
    check(tessera_dgemm(context.handle(), TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, n, n, n, 1, A.data(),
                        n, B.data(), n, 0, C.data(), n));
  });
  const auto factor = [&](const Context& context) {
    std::vector<double> copy = A;
    std::vector<std::int64_t> pivots(n);
    std::int64_t info = 0;
    check(tessera_dgetrf(context.handle(), TESSERA_COL_MAJOR, n, n, copy.data(), n, pivots.data(), &info));
  };
  expect_seen_on_the_way("dgetrf", factor);
}

TEST(RunningCalls, AskedWrongly) {
  EXPECT_EQ(tessera_running_calls(nullptr, 1, nullptr), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 1);
}

}  // namespace running_calls_test
}  // namespace tessera::offload
