// The loss of a device at every kind of operation, at the first, a middle and the last one: the result is right, whatever was lost and
// however many devices are left. Host devices leave half of a copy written when they fail in it.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <sstream>
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
namespace fault_test {

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
                            {FailingOperation::to_peer, StreamKind::to_peer},
                            {FailingOperation::kernel, StreamKind::compute}};

/// Where there are no peers that reach each other, or too little memory, old values are in host memory anyway.
Config with_peers() { return Config::from_settings("TESSERA_KEEP_OLD_VALUES=peers"); }
/// Results are written in slices, and where that cannot be, old values are in host memory.
Config in_place() { return Config::from_settings("TESSERA_KEEP_OLD_VALUES=on"); }

/// Devices of which the first one fails.
class Machine : public test::HostRuntime {
 public:
  /// @param tiles that each device holds
  Machine(int count, index_t tiles, FailingOperation operation, std::int64_t number,
          const Config& config = with_peers())
      : test::HostRuntime(settings_of(count, tiles, operation, number), config) {}

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

/// @return empty if the CPU alone has computed it
template <Scalar T>
runtime::JobStatistics compute(test::HostRuntime& machine, const test::Level3Case& problem, const std::string& what) {
  test::Level3Fixture<T> fixture(problem, 5);
  std::optional<runtime::JobStatistics> statistics;
  try {
    statistics = machine.run_or_compute(fixture.problem(), tile);
    EXPECT_TRUE(statistics || machine.runtime->devices().empty()) << what;
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": " << error.what();
    return {};
  }
  EXPECT_TRUE(fixture.check()) << what;
  return statistics.value_or(runtime::JobStatistics{});
}

bool depends_on_old_values(const test::Level3Case& problem) {
  return Level3{.routine = problem.routine}.is_triangular() || problem.beta != AnyScalar(0);
}

/// All places of a loss for one call. @return how often it began again
template <Scalar T>
std::int64_t lose_everywhere(const test::Level3Case& problem, index_t memory_tiles, bool all_fits,
                             const Config& config) {
  std::int64_t restarts = 0;
  for (const int devices : {1, 2, 3}) {
    Machine whole(devices, memory_tiles, FailingOperation::any, -1, config);
    const runtime::JobStatistics undisturbed = compute<T>(whole, problem, "without a loss");
    // Where devices keep old values for each other, they keep all of them.
    const bool keep =
        config.keep_old_values == OldValuesPlace::peers && devices > 1 && all_fits && depends_on_old_values(problem);
    if (keep) {
      EXPECT_GE(undisturbed.bytes_kept(), undisturbed.compulsory_down) << problem;
    } else {
      EXPECT_EQ(undisturbed.bytes_kept(), 0) << problem;
    }
    for (const Fault& fault : faults) {
      const std::int64_t count = whole.operations(fault.kind);
      for (const std::int64_t number : {std::int64_t{0}, count / 2, count - 1}) {
        if (number < 0) continue;
        std::ostringstream what;
        what << problem << ", operation " << number << " of kind " << static_cast<int>(fault.operation) << ", "
             << devices << " devices";
        Machine machine(devices, memory_tiles, fault.operation, number, config);
        restarts += compute<T>(machine, problem, what.str()).restarts;
        if (number == 0) compute<T>(machine, problem, what.str() + ", the call after it");
      }
    }
  }
  return restarts;
}

std::int64_t lose_everywhere(const test::Level3Case& problem, index_t memory_tiles, bool all_fits) {
  std::int64_t restarts = 0;
  for (const Config& config : {with_peers(), in_place()}) {
    restarts += Level3{.routine = problem.routine}.is_hermitian()
                    ? lose_everywhere<std::complex<double>>(problem, memory_tiles, all_fits, config)
                    : lose_everywhere<double>(problem, memory_tiles, all_fits, config);
  }
  return restarts;
}

class Loss : public ::testing::TestWithParam<std::tuple<Routine, bool>> {};

TEST_P(Loss, LeavesTheResultRight) {
  const auto [routine, beta] = GetParam();
  const bool triangular = Level3{.routine = routine}.is_triangular();
  if (triangular && beta) GTEST_SKIP() << "has no beta";
  std::int64_t restarts = 0;
  for (const Side side : {Side::left, Side::right}) {
    if (side == Side::right && Level3{.routine = routine}.has_k()) continue;
    restarts += lose_everywhere(problem_of(routine, beta, side, 4), 4000, true);
  }
  EXPECT_GT(restarts, 12);
}

// Where memory is short, tasks advance in groups and old values wait on the device.
TEST_P(Loss, LeavesTheResultRightWhereMemoryIsShort) {
  const auto [routine, beta] = GetParam();
  if (Level3{.routine = routine}.is_triangular() && beta) GTEST_SKIP() << "has no beta";
  const bool complex = Level3{.routine = routine}.is_hermitian();
  EXPECT_GT(lose_everywhere(problem_of(routine, beta, Side::left, 5), complex ? 40 : 20, false), 6);
}

// Devices add up ranges of k apart, and one of them what the others have.
TEST_P(Loss, LeavesLongSumsRight) {
  const auto [routine, beta] = GetParam();
  if (!Level3{.routine = routine}.has_k()) GTEST_SKIP() << "has no sum of its own length";
  test::Level3Case problem = problem_of(routine, beta, Side::left, 1);
  problem.m = problem.n = tile + 3;
  problem.k = 40 * tile;
  EXPECT_GT(lose_everywhere(problem, 4000, true), 12);
}

TEST_P(Loss, LeavesTheResultsOfFourCallersRight) {
  const auto [routine, beta] = GetParam();
  if (Level3{.routine = routine}.is_triangular() && beta) GTEST_SKIP() << "has no beta";
  const test::Level3Case problem = problem_of(routine, beta, Side::left, 3);
  for (const int devices : {1, 2, 3}) {
    for (const Fault& fault : faults) {
      for (const std::int64_t number : {3, 30}) {
        Machine machine(devices, 4000, fault.operation, number, number == 3 ? in_place() : with_peers());
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

// A device computes and keeps old values for others at the same time. Its operations meet the copies in its memory at
// every stage: before they are whole, before the new values are written, and during these writes.
TEST(FaultModel, ADeviceThatKeepsOldValuesIsLostAtEachMoment) {
  for (const Routine routine : {Routine::gemm, Routine::syrk, Routine::trmm, Routine::trsm}) {
    const bool beta = !Level3{.routine = routine}.is_triangular();
    const test::Level3Case problem = problem_of(routine, beta, Side::left, 3);
    for (const int devices : {2, 3}) {
      std::int64_t restarts = 0;
      std::int64_t kept = 0;
      for (std::int64_t number = 0; number < 80; ++number) {
        Machine machine(devices, 4000, FailingOperation::any, number);
        std::ostringstream what;
        what << problem << ", operation " << number << ", " << devices << " devices";
        const runtime::JobStatistics statistics = compute<double>(machine, problem, what.str());
        restarts += statistics.restarts;
        // A device that goes on alone keeps its old values on the host.
        kept += statistics.restarts > 0 && statistics.bytes_kept() > 0 ? 1 : 0;
      }
      EXPECT_GT(restarts, 0) << problem;
      EXPECT_GT(kept, 0) << problem;
    }
  }
}

// The copies of one device are in the memory of the other one, and both fail in the first tile that they write: the
// call fails, and says why. In host memory old values survive that.
TEST(FaultModel, BothTheWriterAndTheKeeperOfATileAreLost) {
  for (const Routine routine : {Routine::gemm, Routine::trmm, Routine::trsm}) {
    const bool beta = !Level3{.routine = routine}.is_triangular();
    const test::Level3Case problem = problem_of(routine, beta, Side::left, 3);
    HostDeviceSettings settings;
    settings.memory_bytes = 4000 * tile_bytes;
    settings.failing_operation = FailingOperation::down;
    settings.fail_after_ops = 0;
    {
      test::HostRuntime machine({settings, settings}, with_peers());
      test::Level3Fixture<double> fixture(problem, 5);
      try {
        machine.run_or_compute(fixture.problem(), tile);
        ADD_FAILURE() << problem << ": a torn tile was kept silent";
      } catch (const DeviceLost& error) {
        EXPECT_NE(std::string(error.what()).find("while it wrote a tile of C back"), std::string::npos) << error.what();
      }
      compute<double>(machine, problem, "the call after it");
    }
    test::HostRuntime machine({settings, settings}, Config::from_settings("TESSERA_KEEP_OLD_VALUES=copies"));
    compute<double>(machine, problem, "old values in host memory");
  }
}

// A device may be lost in every copy of slices, alone or beside others: what has been written stays, and the other slices are
// computed from what was there.
TEST(FaultModel, TheSlicesThatWereNotWrittenAreComputed) {
  for (const Routine routine : test::all_routines) {
    for (const Side side : {Side::left, Side::right}) {
      const Level3 like{.routine = routine};
      if (like.is_hermitian() || (side == Side::right && like.has_k())) continue;
      const test::Level3Case problem = problem_of(routine, true, side, 3);
      for (const int devices : {1, 2}) {
        Machine whole(1, 4000, FailingOperation::any, -1, in_place());
        compute<double>(whole, problem, "without a loss");
        const std::int64_t tiles = whole.operations(StreamKind::down);
        // How many tiles one of two devices computes depends on the moment.
        constexpr int most_rounds = 20;
        std::int64_t ended_by_cpu = 0;
        for (std::int64_t n = 0; n < tiles || (ended_by_cpu == 0 && n < most_rounds * tiles); ++n) {
          const std::int64_t number = n % tiles;
          Machine machine(devices, 4000, FailingOperation::down, number, in_place());
          std::ostringstream what;
          what << problem << ", copy down " << number << ", " << devices << " devices";
          const runtime::JobStatistics statistics = compute<double>(machine, problem, what.str());
          for (const runtime::DeviceStatistics& device : statistics.devices)
            ended_by_cpu += device.device == runtime::cpu_device ? device.tasks : 0;
        }
        EXPECT_GT(ended_by_cpu, 0) << problem;
      }
    }
  }
}

// A tile that its writer leaves torn comes back from the keeper.
TEST(FaultModel, ATornTileComesBackFromTheKeeper) {
  for (const Routine routine : {Routine::gemm, Routine::trmm, Routine::trsm}) {
    const bool beta = !Level3{.routine = routine}.is_triangular();
    const test::Level3Case problem = problem_of(routine, beta, Side::left, 3);
    // How many tiles the device that fails computes depends on the moment.
    constexpr int most_rounds = 100;
    int restored = 0;
    for (int round = 0; round < 4 || (restored == 0 && round < most_rounds); ++round) {
      Machine machine(2, 4000, FailingOperation::down, round % 4);
      const runtime::JobStatistics statistics = compute<double>(machine, problem, "a torn tile");
      EXPECT_GT(statistics.bytes_kept(), 0);
      // A device that lives completes its own result; a torn tile comes back from the other device.
      restored += statistics.restarts > 0 && machine.runtime->devices().size() == 1 ? 1 : 0;
    }
    EXPECT_GT(restored, 0) << problem;
  }
}

TEST(FaultModel, OldValuesStayOnTheHostIfToldTo) {
  const test::Level3Case problem = problem_of(Routine::trsm, false, Side::left, 3);
  Machine machine(2, 4000, FailingOperation::down, 2, Config::from_settings("TESSERA_KEEP_OLD_VALUES=copies"));
  EXPECT_EQ(compute<double>(machine, problem, "host").bytes_kept(), 0);
  EXPECT_EQ(machine.operations(StreamKind::to_peer), 0);
}

INSTANTIATE_TEST_SUITE_P(FaultModel, Loss,
                         ::testing::Combine(::testing::ValuesIn(test::all_routines), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "_beta" : "_no_beta");
                         });

}  // namespace fault_test
}  // namespace tessera::routines
