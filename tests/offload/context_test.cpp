// Waiting in a context. Calls that stay on the CPU wait for nobody, neither for devices that are being opened nor for
// those that compute. A process that ends leaves its devices.
#include "offload/context.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/process.hpp"
#include "tessera/tessera.h"
#include "tests/test_plugin.hpp"

namespace tessera::offload {
namespace context_test {

using ::testing::ExitedWithCode;

/// C = A B of this order with whole numbers, so that the result is exact: row i of A is i % 7, column j of B is j % 5.
template <Scalar T>
class Product {
 public:
  explicit Product(index_t order) : order_(order), A_(elements()), B_(elements()), C_(elements(), -1) {
    for (index_t j = 0; j < order; ++j) {
      for (index_t i = 0; i < order; ++i) {
        A_[at(i, j)] = static_cast<T>(i % 7);
        B_[at(i, j)] = static_cast<T>(j % 5);
      }
    }
  }
  Level3 call() {
    return {.type = scalar_type_of<T>(),
            .m = order_,
            .n = order_,
            .k = order_,
            .A = A_.data(),
            .lda = order_,
            .B = B_.data(),
            .ldb = order_,
            .C = C_.data(),
            .ldc = order_};
  }
  bool is_right() const {
    for (index_t j = 0; j < order_; ++j) {
      for (index_t i = 0; i < order_; ++i) {
        if (C_[at(i, j)] != static_cast<T>(order_ * (i % 7) * (j % 5))) return false;
      }
    }
    return true;
  }

 private:
  std::size_t elements() const { return static_cast<std::size_t>(order_ * order_); }
  std::size_t at(index_t i, index_t j) const { return static_cast<std::size_t>(i + j * order_); }

  index_t order_;
  std::vector<T> A_, B_, C_;
};

constexpr index_t small = 100;
constexpr index_t medium = 420;  ///< devices are worth a look, but the CPU needs only a moment
constexpr index_t large = 2000;

bool has_device_threads() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name.rfind("tsr0", 0) == 0) return true;
  }
  return false;
}

TEST(Context, CallsForTheCpuDoNotWaitForDevicesThatAreBeingOpened) {
  const std::string plugin = test::test_plugin("slow_to_open");
  void* const library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto& reached = *static_cast<std::atomic<int>*>(dlsym(library, "tessera_test_reached"));
  auto& allowed = *static_cast<std::atomic<int>*>(dlsym(library, "tessera_test_allowed"));

  Context context(Config::from_settings("TESSERA_OFFLOAD=auto,sgemm=always TESSERA_CUDA_PLUGIN=" + plugin));
  Product<float> first(large);
  std::atomic<bool> returned = false;
  std::thread opener([&] {
    context.run(first.call());
    returned = true;
  });
  for (const int step : {1, 2}) {
    while (reached < step && !returned) std::this_thread::yield();
    // The opener stays where it is until we allow the step. If these calls waited for it, nothing would ever go on.
    for (const index_t order : {small, medium}) {
      Product<double> product(order);
      EXPECT_FALSE(context.run(product.call()).has_value());
      EXPECT_TRUE(product.is_right());
    }
    EXPECT_EQ(reached, step);
    allowed = step;
  }
  opener.join();
  EXPECT_TRUE(first.is_right());
}

TEST(Context, TheFirstJobTellsWhatItWaitedFor) {
  Context context(Config::from_settings("TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_HOST_DEVICE=start=5ms"));
  Product<double> product(small);
  const auto first = context.run(product.call());
  ASSERT_TRUE(first && first->start_up);
  const runtime::StartUp& start_up = *first->start_up;
  EXPECT_GT(start_up.load_s, 0);
  EXPECT_GE(start_up.open_s, 0.005);
  EXPECT_GT(start_up.reserve_s, 0);
  EXPECT_GT(start_up.first_kernel_s, start_up.load_s + start_up.open_s + start_up.reserve_s);
  const auto second = context.run(product.call());
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->start_up);
  EXPECT_GT(second->first_kernel_at, first->first_kernel_at);
}

/// The first call of a context, of each kind, whose devices take so long to start.
constexpr double start_s = 0.03;
constexpr const char* slow_start = "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_HOST_DEVICE=start=30ms";

void expect_caller_time(const std::optional<runtime::JobStatistics>& job, double seen_s, const char* what) {
  ASSERT_TRUE(job) << what;
  EXPECT_GE(job->start_s, start_s) << what;
  EXPECT_GT(job->device_s, 0) << what;
  EXPECT_GE(job->seconds, job->start_s + job->device_s) << what;
  EXPECT_LE(job->seconds, seen_s) << what;
}

TEST(Context, WhatIsToldOfACallIsItsCallersTime) {
  const auto first_call = [](const char* what, const auto& call) {
    Context context(Config::from_settings(slow_start));
    CallTime time = CallTime::from_now();
    const auto job = call(context, time);
    expect_caller_time(job, time.seconds(), what);
    EXPECT_EQ(time.start_s(), job->start_s) << what;
  };
  std::vector<double> A = {4, 1, 1, 3}, B = {1, 2}, w(2);
  first_call("dgemm", [&](Context& context, CallTime& time) {
    Product<double> product(small);
    return context.run(product.call(), Fallback::report, nullptr, &time);
  });
  first_call("dpotrf", [&](Context& context, CallTime& time) {
    LapackRun call{.problem = {.routine = Routine::potrf, .m = 2, .n = 2, .A = A.data(), .lda = 2}};
    return context.run(call, Fallback::report, nullptr, nullptr, &time);
  });
  first_call("dpotrs", [&](Context& context, CallTime& time) {
    LapackRun call{
        .problem = {
            .routine = Routine::potrs, .m = 2, .n = 2, .k = 1, .A = A.data(), .lda = 2, .B = B.data(), .ldb = 2}};
    return context.run(call, Fallback::report, nullptr, nullptr, &time);
  });
  first_call("dgemm_batch", [&](Context& context, CallTime& time) {
    GemmBatch batch;
    batch.forms.push_back({});
    std::vector<double> C(2);
    for (double& c : C)
      batch.problems.push_back(
          {.m = 1, .n = 1, .k = 1, .A = A.data(), .lda = 1, .B = B.data(), .ldb = 1, .C = &c, .ldc = 1});
    return context.run_batch(batch, nullptr, nullptr, &time);
  });
  first_call("dpotrf_batch", [&](Context& context, CallTime& time) {
    LapackProblems batch;
    batch.routine = Routine::potrf;
    batch.forms.push_back({});
    int info = 0;
    batch.problems.push_back({.m = 2, .n = 2, .A = A.data(), .lda = 2, .info = &info});
    return context.run_batch(batch, nullptr, &time);
  });
}

TEST(Context, ALaterCallHasNotWaitedForTheStart) {
  Context context(Config::from_settings(slow_start));
  Product<double> product(small);
  static_cast<void>(context.run(product.call()));
  const auto second = context.run(product.call());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->start_s, 0);
  EXPECT_GE(second->seconds, second->device_s);
}

TEST(Context, ACallThatWaitedForDevicesInVainTellsSo) {
  const std::string plugin = test::test_plugin("slow_to_open");
  void* const library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto& reached = *static_cast<std::atomic<int>*>(dlsym(library, "tessera_test_reached"));
  auto& allowed = *static_cast<std::atomic<int>*>(dlsym(library, "tessera_test_allowed"));
  reached = allowed = 0;

  tessera_context ctx = nullptr;
  ASSERT_EQ(tessera_create_with(&ctx, ("TESSERA_OFFLOAD=always TESSERA_CUDA_PLUGIN=" + plugin).c_str()),
            TESSERA_SUCCESS);
  const double one = 1;
  double C = 0, seen_s = 0;
  std::thread caller([&] {
    const double begin_s = device::now_seconds();
    EXPECT_EQ(tessera_dgemm(ctx, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 1, 1, 2, &one, 1, &one, 1, 0,
                            &C, 1),
              TESSERA_SUCCESS);
    seen_s = device::now_seconds() - begin_s;
  });
  while (reached < 1) std::this_thread::yield();
  const double held_from_s = device::now_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double held_s = device::now_seconds() - held_from_s;
  allowed = 2;
  caller.join();
  EXPECT_EQ(C, 2);
  tessera_job_stats told = {};
  told.struct_size = sizeof(told);
  ASSERT_EQ(tessera_last_job_stats(ctx, &told), TESSERA_SUCCESS);
  EXPECT_EQ(told.devices, 0);
  EXPECT_GE(told.start_s, held_s);
  EXPECT_GE(told.seconds, told.start_s);
  EXPECT_LE(told.seconds, seen_s);
  EXPECT_EQ(tessera_destroy(ctx), TESSERA_SUCCESS);
}

TEST(Context, OpensWhatCanBeOpened) {
  Context context(Config::from_settings(
      "TESSERA_DEVICES=host:3 TESSERA_OFFLOAD=always TESSERA_HOST_DEVICE=start=0s;open_fails=1000000;start=0s"));
  Product<double> product(small);
  const auto job = context.run(product.call());
  ASSERT_TRUE(job);
  EXPECT_TRUE(product.is_right());
  ASSERT_EQ(job->devices.size(), 2u);
  EXPECT_EQ(job->devices[0].device, "host:0");
  EXPECT_EQ(job->devices[1].device, "host:2");
}

TEST(Context, TriesAgainLaterWhenNothingCouldBeOpened) {
  Context context(
      Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=always TESSERA_HOST_DEVICE=open_fails=2"));
  Product<double> product(small);
  bool on_device = context.run(product.call(), Fallback::cpu_blas).has_value();
  EXPECT_FALSE(on_device);
  EXPECT_TRUE(product.is_right());
  for (int i = 0; i < 3000 && !on_device; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    on_device = context.run(product.call(), Fallback::cpu_blas).has_value();
  }
  EXPECT_TRUE(on_device);
  EXPECT_TRUE(product.is_right());
}

// The destructor of a context does not wait for the next attempt to open devices.
TEST(Context, MayBeDestroyedBetweenTwoAttempts) {
  Context context(
      Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=always TESSERA_HOST_DEVICE=open_fails=1000000"));
  Product<double> product(small);
  for (int i = 0; i < 120; ++i) {
    EXPECT_FALSE(context.run(product.call(), Fallback::cpu_blas).has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST(Context, WarmsUpInTheBackgroundOfTheFirstCall) {
  Context context(Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_WARM_UP=1"));
  Product<double> product(small);
  EXPECT_FALSE(context.run(product.call()).has_value());
  EXPECT_TRUE(product.is_right());
  for (int i = 0; i < 30000 && !has_device_threads(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(has_device_threads());
}

void live_and_die() {
  Context context(Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_WARM_UP=1"));
  Product<double> product(small);
  context.run(product.call());
  EXPECT_TRUE(product.is_right());
}

// In the constructor of a library the thread holds the loader's lock, for which the thread in the background waits before
// it opens devices.
TEST(Context, MayBeDestroyedByWhoHoldsTheLoader) { test::call_while_loading(&live_and_die); }

class BusyDevices : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// With 10 s for each copy and kernel the large call takes hours. With 5 ms it takes more than a minute; but little fits into the
/// memory, so that little is under way at any time.
constexpr const char* slowest_devices = "TESSERA_DEVICES=host:2 TESSERA_TILE=64 TESSERA_HOST_DEVICE=delay=10s";
constexpr const char* slow_devices = "TESSERA_DEVICES=host:2 TESSERA_TILE=64 TESSERA_HOST_DEVICE=delay=5ms,memory=2MiB";

TEST_F(BusyDevices, SmallCallsDoNotQueueBehindALargeOne) {
  EXPECT_EXIT(
      {
        Context context(Config::from_settings(slowest_devices));
        Product<double> first(large);
        std::atomic<bool> done = false;
        std::thread([&] {
          context.run(first.call());
          done = true;
        }).detach();
        while (!has_device_threads()) std::this_thread::yield();
        bool good = true;
        for (int i = 0; i < 100; ++i) {
          Product<double> product(small);
          context.run(product.call());
          good = good && product.is_right();
        }
        _exit(good && !done ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST_F(BusyDevices, AreLeftWhenTheProcessEndsAndTheCpuGoesOn) {
  EXPECT_EXIT(
      {
        Context context(Config::from_settings(slow_devices));
        Product<double> first(large);
        std::optional<runtime::JobStatistics> job;
        std::thread caller([&] { job = context.run(first.call()); });
        while (!has_device_threads()) std::this_thread::yield();
        process::leave_devices();
        caller.join();
        const bool cpu_went_on = job && job->devices.back().device == "cpu" && job->devices.back().tasks > 0;
        Product<double> late(large);
        const bool stays = !context.run(late.call()).has_value();
        _exit(first.is_right() && late.is_right() && cpu_went_on && stays ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

}  // namespace context_test
}  // namespace tessera::offload
