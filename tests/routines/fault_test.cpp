// The loss of a device at every kind of operation, at the first, a middle and the last one: the result is right, whatever was lost and
// however many devices are left. Host devices leave half of a copy written when they fail in it.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/config.hpp"
#include "core/error.hpp"
#include "device/host/host_device.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/level3.hpp"
#include "runtime/runtime.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/host_runtime.hpp"

namespace tessera::routines {
namespace {

using device::StreamKind;

// The operations are those of larger tiles; the oracle takes an eighth of the time that it takes with twice this one.
constexpr index_t tile = 8;
constexpr std::size_t tile_bytes = tile * tile * sizeof(double);

struct Fault {
  FailingOperation operation;
  StreamKind kind;
};
constexpr Fault faults[] = {{FailingOperation::up, StreamKind::up},
                            {FailingOperation::down, StreamKind::down},
                            {FailingOperation::peer, StreamKind::peer},
                            {FailingOperation::kernel, StreamKind::compute}};

/// Devices of which the first one fails.
class Machine : public test::HostRuntime {
 public:
  /// @param tiles that each device holds
  Machine(int count, index_t tiles, FailingOperation operation, std::int64_t number)
      : test::HostRuntime(settings_of(count, tiles, operation, number)) {}

  std::int64_t operations(StreamKind kind) const { return devices.front()->operations(kind); }

 private:
  static std::vector<HostDeviceSettings> settings_of(int count, index_t tiles, FailingOperation operation,
                                                     std::int64_t number) {
    HostDeviceSettings settings;
    settings.memory_bytes = static_cast<std::size_t>(tiles) * tile_bytes;
    std::vector<HostDeviceSettings> all(static_cast<std::size_t>(count), settings);
    all.front().failing_operation = operation;
    all.front().fail_after_ops = number;
    return all;
  }
};

test::Level3Case problem_of(Routine routine, bool beta, Side side, index_t tiles) {
  return {.routine = routine,
          .side = side,
          .m = tiles * tile + 3,
          .n = tiles * tile + 5,
          .k = tiles * tile + 1,
          .alpha = 2,
          .beta = beta ? 1 : 0};
}

/// @return how often the call began again
template <Scalar T>
int compute(Machine& machine, const test::Level3Case& problem, const std::string& what) {
  test::Level3Fixture<T> fixture(problem, 5);
  int restarts = 0;
  try {
    const auto statistics = machine.run_or_compute(fixture.problem(), tile);
    if (statistics) restarts = static_cast<int>(statistics->restarts);
    EXPECT_TRUE(statistics || machine.runtime->devices().empty()) << what;
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": " << error.what();
    return 0;
  }
  EXPECT_TRUE(fixture.check()) << what;
  return restarts;
}

/// All places of a loss for one call.
template <Scalar T>
int lose_everywhere(const test::Level3Case& problem, index_t memory_tiles) {
  int restarts = 0;
  for (const int devices : {1, 2, 3}) {
    Machine whole(devices, memory_tiles, FailingOperation::any, -1);
    compute<T>(whole, problem, "without a loss");
    for (const Fault& fault : faults) {
      const std::int64_t count = whole.operations(fault.kind);
      for (const std::int64_t number : {std::int64_t{0}, count / 2, count - 1}) {
        if (number < 0) continue;
        std::ostringstream what;
        what << problem << ", operation " << number << " of kind " << static_cast<int>(fault.operation) << ", "
             << devices << " devices";
        Machine machine(devices, memory_tiles, fault.operation, number);
        restarts += compute<T>(machine, problem, what.str());
        if (number == 0) compute<T>(machine, problem, what.str() + ", the call after it");
      }
    }
  }
  return restarts;
}

class Loss : public ::testing::TestWithParam<std::tuple<Routine, bool>> {};

TEST_P(Loss, LeavesTheResultRight) {
  const auto [routine, beta] = GetParam();
  const bool triangular = Level3{.routine = routine}.is_triangular();
  if (triangular && beta) GTEST_SKIP() << "has no beta";
  int restarts = 0;
  for (const Side side : {Side::left, Side::right}) {
    if (side == Side::right && Level3{.routine = routine}.has_k()) continue;
    if (Level3{.routine = routine}.is_hermitian()) {
      restarts += lose_everywhere<std::complex<double>>(problem_of(routine, beta, side, 4), 4000);
    } else {
      restarts += lose_everywhere<double>(problem_of(routine, beta, side, 4), 4000);
    }
  }
  EXPECT_GT(restarts, 6);
}

// Where memory is short, tasks advance in groups and old values wait on the device.
TEST_P(Loss, LeavesTheResultRightWhereMemoryIsShort) {
  const auto [routine, beta] = GetParam();
  if (Level3{.routine = routine}.is_triangular() && beta) GTEST_SKIP() << "has no beta";
  if (Level3{.routine = routine}.is_hermitian()) {
    EXPECT_GT(lose_everywhere<std::complex<double>>(problem_of(routine, beta, Side::left, 5), 2 * 20), 3);
  } else {
    EXPECT_GT(lose_everywhere<double>(problem_of(routine, beta, Side::left, 5), 20), 3);
  }
}

TEST_P(Loss, LeavesTheResultsOfFourCallersRight) {
  const auto [routine, beta] = GetParam();
  if (Level3{.routine = routine}.is_triangular() && beta) GTEST_SKIP() << "has no beta";
  const test::Level3Case problem = problem_of(routine, beta, Side::left, 3);
  for (const int devices : {1, 2, 3}) {
    for (const Fault& fault : faults) {
      for (const std::int64_t number : {3, 30}) {
        Machine machine(devices, 4000, fault.operation, number);
        std::vector<std::thread> callers;
        for (int caller = 0; caller < 4; ++caller) {
          callers.emplace_back([&] {
            for (int call = 0; call < 2; ++call) {
              if (Level3{.routine = problem.routine}.is_hermitian()) {
                compute<std::complex<double>>(machine, problem, "four callers");
              } else {
                compute<double>(machine, problem, "four callers");
              }
            }
          });
        }
        for (std::thread& caller : callers) caller.join();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FaultModel, Loss,
                         ::testing::Combine(::testing::ValuesIn(test::all_routines), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "_beta" : "_no_beta");
                         });

}  // namespace
}  // namespace tessera::routines
