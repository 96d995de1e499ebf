// Problems whose device fails, at each of its operations: another one solves them, or their inputs are as they were.
#include <gtest/gtest.h>

#include <atomic>
#include <complex>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/config.hpp"
#include "core/error.hpp"
#include "routines/dense_solvers.hpp"
#include "tests/dense_fixture.hpp"
#include "tests/routines/host_runtime.hpp"

namespace tessera::routines {
namespace dense_fault_test {

constexpr LapackCall with_overwritten_inputs[] = {
    {.routine = Routine::heevd, .vectors = true, .n = 50},
    {.routine = Routine::hegvd, .vectors = true, .uplo = Uplo::upper, .n = 50},
    {.routine = Routine::gesvd, .u = VectorJob::overwrite, .vt = VectorJob::all, .m = 60, .n = 50},
    {.routine = Routine::gesvd, .u = VectorJob::all, .vt = VectorJob::overwrite, .m = 50, .n = 60},
    {.routine = Routine::ungqr, .m = 60, .n = 50, .k = 40},
    {.routine = Routine::unglq, .m = 50, .n = 60, .k = 40},
    {.routine = Routine::unmqr, .m = 60, .n = 50, .k = 40},
    {.routine = Routine::potri, .n = 50},
    {.routine = Routine::unmlq, .m = 60, .n = 50, .k = 40},
    {.routine = Routine::unmtr, .m = 60, .n = 50},
    {.routine = Routine::larfb, .m = 60, .n = 50, .k = 20},
    {.routine = Routine::gels, .m = 60, .n = 50, .k = 5},
    {.routine = Routine::gels, .m = 50, .n = 60, .k = 5},
    {.routine = Routine::gelsd, .m = 60, .n = 50, .k = 5, .rcond = 1e-4},
    {.routine = Routine::lauum, .n = 50},
    {.routine = Routine::getri, .n = 50},
    {.routine = Routine::sysv, .n = 50, .k = 5},
    {.routine = Routine::hesv, .uplo = Uplo::upper, .n = 50, .k = 5}};

std::vector<HostDeviceSettings> settings_of(int devices, std::int64_t failing, std::int64_t refused = -1) {
  std::vector<HostDeviceSettings> settings(static_cast<std::size_t>(devices));
  settings.front().fail_after_ops = failing;
  settings.front().refused_op = refused;
  return settings;
}

using Fixture = test::DenseFixture<std::complex<double>>;

/// @return whether the device has failed at all
bool fails_well(const LapackCall& form, const std::vector<HostDeviceSettings>& settings) {
  test::HostRuntime host(settings);
  Fixture fixture(form, 9);
  try {
    const runtime::JobStatistics job = solve_dense(*host.runtime, fixture.problem());
    EXPECT_TRUE(fixture.unless_library_is_wrong(fixture.check(job.info)));
    EXPECT_LE(job.restarts, 1);
    return job.restarts == 1;
  } catch (const NoDeviceLeft&) {
    EXPECT_EQ(settings.size(), 1U);
    EXPECT_TRUE(fixture.inputs_are_intact());
    return true;
  }
}

TEST(DenseFaults, LostAtEachOperation) {
  for (const LapackCall& form : with_overwritten_inputs) {
    for (const int devices : {1, 2}) {
      std::int64_t number = 0;
      while (fails_well(form, settings_of(devices, number))) {
        ++number;
        ASSERT_LT(number, 30);
      }
      EXPECT_GE(number, 5) << name_of(form.routine, ScalarType::z);  // the telling and A go up, kernel, two come down
    }
  }
}

TEST(DenseFaults, RefusedWork) {
  for (const LapackCall& form : with_overwritten_inputs) {
    for (const int devices : {1, 2}) {
      std::int64_t number = 0;
      while (fails_well(form, settings_of(devices, -1, number))) ++number;
      EXPECT_GE(number, 5);
    }
  }
}

TEST(DenseFaults, WithoutCopiesATornInputIsTold) {
  std::vector<HostDeviceSettings> settings = settings_of(1, 0);
  bool has_torn = false;
  for (std::int64_t number = 0; number < 12; ++number) {
    settings.front().fail_after_ops = number;
    test::HostRuntime host(settings, Config::from_settings("TESSERA_KEEP_OLD_VALUES=off"));
    Fixture fixture({.routine = Routine::heevd, .vectors = true, .n = 50}, 9);
    try {
      solve_dense(*host.runtime, fixture.problem());
    } catch (const NoDeviceLeft&) {
      EXPECT_TRUE(fixture.inputs_are_intact());
    } catch (const DeviceLost&) {
      has_torn = true;
    }
  }
  EXPECT_TRUE(has_torn);
}

TEST(DenseFaults, NoRoomLeavesInputsIntact) {
  std::vector<HostDeviceSettings> settings(1);
  settings.front().memory_bytes = std::size_t{1} << 20;
  test::HostRuntime host(settings);
  Fixture fixture({.routine = Routine::heevd, .vectors = true, .n = 300}, 9);
  EXPECT_THROW(solve_dense(*host.runtime, fixture.problem()), OutOfDeviceMemory);
  EXPECT_TRUE(fixture.inputs_are_intact());
  // The next device may have it.
  settings.emplace_back();
  test::HostRuntime two(settings);
  const runtime::JobStatistics job = solve_dense(*two.runtime, fixture.problem());
  EXPECT_EQ(job.restarts, 0);
  EXPECT_EQ(job.devices.at(0).tasks, 0);
  EXPECT_EQ(job.devices.at(1).tasks, 1);
}

// A problem has the devices to itself; products that come meanwhile wait, and are right.
TEST(DenseFaults, CallersTakeTurns) {
  test::HostRuntime host(std::vector<HostDeviceSettings>(2));
  std::atomic<int> solved = 0;
  const auto solve_some = [&](unsigned seed) {
    for (unsigned i = 0; i < 6; ++i) {
      test::DenseFixture<double> fixture({.routine = Routine::heevd, .vectors = true, .n = 40}, 10 * seed + i);
      const runtime::JobStatistics job = solve_dense(*host.runtime, fixture.problem());
      EXPECT_TRUE(fixture.unless_library_is_wrong(fixture.check(job.info)));
      ++solved;
    }
  };
  std::thread first(solve_some, 1), second(solve_some, 2);
  constexpr index_t n = 96;
  const std::vector<double> A(n * n, 1), B(n * n, 2);
  for (int i = 0; i < 20; ++i) {
    std::vector<double> C(n * n, 7);
    const Level3 gemm{
        .m = n, .n = n, .k = n, .A = A.data(), .lda = n, .B = B.data(), .ldb = n, .C = C.data(), .ldc = n};
    static_cast<void>(routines::run(*host.runtime, gemm, 32));
    EXPECT_EQ(C, std::vector<double>(n * n, 2.0 * n));
  }
  first.join();
  second.join();
  EXPECT_EQ(solved, 12);
}

TEST(DenseFaults, DevicesWithoutLapackTellSo) {
  test::OpenedDevices opened = test::open_host_devices(1);  // the readable reference computes
  runtime::Runtime runtime(std::move(opened.accelerators), Config{}, [](const Level3&) {});
  Fixture fixture({.routine = Routine::heevd, .vectors = true, .n = 20}, 9);
  EXPECT_THROW(solve_dense(runtime, fixture.problem()), NotAvailable);
  EXPECT_TRUE(fixture.inputs_are_intact());
}

}  // namespace dense_fault_test
}  // namespace tessera::routines
