// The decision in a context, on host devices: what it looks at, what it remembers, and what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "offload/context.hpp"

namespace tessera::offload {
namespace offload_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A product of ones, of which the context makes n in every entry.
class Ones {
 public:
  explicit Ones(index_t n, ScalarType type = ScalarType::d) : n_(n), ones_(elements(n), 1), product_(elements(n), 0) {
    call_.type = type;
    call_.m = call_.n = call_.k = n;
    call_.A = call_.B = ones_.data();
    call_.C = product_.data();
    call_.lda = call_.ldb = call_.ldc = n;
  }
  /// @return whether devices computed it
  bool run(Context& context) {
    CallTime time;
    const bool on_devices = context.run(call_, Fallback::cpu_blas, nullptr, &time).has_value();
    waited_s_ += time.start_s();
    EXPECT_EQ(product_.back(), static_cast<double>(n_));
    return on_devices;
  }
  /// Of all calls, for devices to start.
  double waited_s() const { return waited_s_; }

 private:
  static std::size_t elements(index_t n) { return static_cast<std::size_t>(n * n); }

  index_t n_;
  std::vector<double> ones_;
  std::vector<double> product_;
  double waited_s_ = 0;
  Level3 call_;
};

/// The text that a verbose context writes about one call.
std::string line_about(const std::string& settings, index_t n) {
  testing::internal::CaptureStderr();
  Context context(Config::from_settings("TESSERA_VERBOSE=1 " + settings));
  Ones(n).run(context);
  return testing::internal::GetCapturedStderr();
}

// A cube of 1024 takes a device without modelled rates 200 us in the model, which no CPU reaches.
constexpr index_t large = 1024;

TEST(Offload, DevicesThatStartAtOnceTakeALargeCallAtOnce) {
  EXPECT_THAT(line_about("TESSERA_DEVICES=host:2", large),
              AllOf(HasSubstr("on host:0,host:1 (sooner on devices: estimated"), HasSubstr("s on the CPU)")));
}

TEST(Offload, TheFirstCallOnDevicesTellsOfTheirStart) {
  EXPECT_THAT(line_about("TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always", 100),
              AllOf(HasSubstr("devices were found in "), HasSubstr(" s after the call")));
}

TEST(Offload, DevicesThatTakeLongToStartAreLeftAlone) {
  // If they were started, this would take half an hour.
  EXPECT_THAT(line_about("TESSERA_DEVICES=host:2 TESSERA_HOST_DEVICE=start=1000s", large),
              AllOf(HasSubstr("on the CPU BLAS (starting the devices is not worth it yet: estimated"),
                    HasSubstr("starting takes 1e+03 s, 0 s were forgone before")));
}

/// The number before the last `unit` in `line`.
double number_before(const std::string& line, const std::string& unit) {
  const std::size_t end = line.rfind(unit);
  if (end == std::string::npos) return -1;
  return std::stod(line.substr(line.rfind(' ', end - 1) + 1));
}

TEST(Offload, TheCpuIsExpectedToTakeWhatItTook) {
  Context context(Config::from_settings("TESSERA_VERBOSE=1 TESSERA_DEVICES=host:1 TESSERA_HOST_DEVICE=start=1000s"));
  Ones product(large);
  const auto line = [&] {
    testing::internal::CaptureStderr();
    product.run(context);
    return testing::internal::GetCapturedStderr();
  };
  const double took_s = number_before(line(), " s, ");
  ASSERT_GT(took_s, 0);
  const std::string second = line();
  EXPECT_NEAR(number_before(second, " s on the CPU"), took_s, 0.06 * took_s);
  EXPECT_NEAR(number_before(second, " s were forgone"), took_s - 200e-6, 0.06 * took_s);
}

TEST(Offload, WhatManyCallsForgoPaysForTheStart) {
  Context context(Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_HOST_DEVICE=start=500ms"));
  Ones product(600);
  int on_the_cpu = 0;
  while (!product.run(context)) ASSERT_LT(++on_the_cpu, 10000);
  EXPECT_TRUE(product.run(context));
  EXPECT_LE(product.waited_s(), 0.05) << "at most the end of a start, where that is sooner";
}

TEST(Offload, SmallCallsThatMustGoToDevicesAreToldOfOnce) {
  const auto told_of = [](const std::string& rule, index_t n, int calls) {
    testing::internal::CaptureStderr();
    Context context(Config::from_settings("TESSERA_VERBOSE=1 TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=" + rule));
    Ones product(n);
    for (int call = 0; call < calls; ++call) EXPECT_TRUE(product.run(context));
    const std::string lines = testing::internal::GetCapturedStderr();
    int times = 0;
    for (std::size_t at = 0; (at = lines.find("a number N in place of \"always\"", at)) != std::string::npos; ++at)
      ++times;
    return times;
  };
  EXPECT_EQ(told_of("2", 2, 1001), 0);  // as somebody wants it who has named a size
  EXPECT_EQ(told_of("always", 406, 2), 0);
  EXPECT_EQ(told_of("always", 2, 500), 0);
  EXPECT_EQ(told_of("always", 2, 500), 1);
  EXPECT_EQ(told_of("always", 2, 1001), 0);
}

TEST(Offload, RulesOfSingleRoutines) {
  Context context(Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_TILE=64 TESSERA_OFFLOAD=never,dgemm=always"));
  EXPECT_TRUE(Ones(20).run(context));
  Context by_size(Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_TILE=64 TESSERA_OFFLOAD=never,gemm=100"));
  EXPECT_FALSE(Ones(99).run(by_size));
  EXPECT_TRUE(Ones(100).run(by_size));
  Context other(Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_TILE=64 TESSERA_OFFLOAD=always,dgemm=never"));
  EXPECT_FALSE(Ones(20).run(other));
}

// The look loads nothing, so that a child may still have devices.
TEST(Offload, AChildMayUseDevicesThatItsParentOnlyLookedAt) {
  Context context(Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_HOST_DEVICE=start=1s"));
  Ones product(450);
  EXPECT_FALSE(product.run(context));  // not worth a second
  const pid_t child = fork();
  if (child == 0) {
    const bool opens = context.runtime() != nullptr && !context.describe_devices().starts_with("cpu");
    _exit(opens ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  // Once the parent has begun to open them they are its own.
  ASSERT_NE(context.runtime(), nullptr);
  const pid_t other = fork();
  if (other == 0) _exit(context.runtime() == nullptr ? 0 : 1);
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
}

/// While it lives this process sees no GPU.
class HiddenGpus {
 public:
  HiddenGpus() {
    if (const char* const shown = std::getenv("CUDA_VISIBLE_DEVICES")) shown_ = shown;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
  }
  ~HiddenGpus() { shown_ ? setenv("CUDA_VISIBLE_DEVICES", shown_->c_str(), 1) : unsetenv("CUDA_VISIBLE_DEVICES"); }
  HiddenGpus(const HiddenGpus&) = delete;
  HiddenGpus& operator=(const HiddenGpus&) = delete;

 private:
  std::optional<std::string> shown_;
};

TEST(Offload, WithoutASignOfAGpuNothingIsLoaded) {
  const HiddenGpus hidden;
  EXPECT_THAT(line_about("TESSERA_DEVICES=auto", large),
              AllOf(HasSubstr("on the CPU BLAS (there is no sign of a GPU)"), Not(HasSubstr("plugin"))));
}

TEST(Offload, CallsOnDevicesAreBacklog) {
  Context context(
      Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=always "
                            "TESSERA_HOST_DEVICE=speed=100MFLOP/s,compute=off TESSERA_TILE=64"));
  EXPECT_EQ(context.backlog_s(), 0);
  std::atomic<bool> seen = false;
  std::thread caller([&] {
    std::vector<double> matrix(10000, 1);
    const Level3 call{.m = 100,
                      .n = 100,
                      .k = 100,
                      .A = matrix.data(),
                      .lda = 100,
                      .B = matrix.data(),
                      .ldb = 100,
                      .C = matrix.data(),
                      .ldc = 100};
    while (!seen) context.run(call);
  });
  // The call is estimated by the device's own rate: 2e6 operations.
  double backlog = 0;
  while (backlog == 0) backlog = context.backlog_s();
  EXPECT_NEAR(backlog, 2e6 / 100e6 + 200e-6, 1e-6);
  seen = true;
  caller.join();
  EXPECT_EQ(context.backlog_s(), 0);
}

TEST(Offload, ManyThreadsDecideWhileDevicesStart) {
  Context context(Config::from_settings("TESSERA_DEVICES=host:2 TESSERA_HOST_DEVICE=start=20ms"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Ones product(450);
      for (int i = 0; i < 10; ++i) product.run(context);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace offload_test
}  // namespace tessera::offload
