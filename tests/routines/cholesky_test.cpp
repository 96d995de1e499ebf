// Cholesky through the tile runtime: both triangles and all types, on several devices, with plenty of memory and with as little as
// allowed; matrices that are not positive definite; devices that are lost.
#include <gtest/gtest.h>

#include <complex>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/lapack.hpp"
#include "tests/modelled_run.hpp"
#include "tests/routines/cholesky_problem.hpp"
#include "tests/routines/host_runtime.hpp"
#include "tests/routines/tile_machine.hpp"

namespace tessera::routines {
namespace cholesky_test {

using test::CholeskyCase;
using test::CholeskyFixture;

using test::TileMachine;

constexpr index_t tile = TileMachine::tile;

index_t final_columns(index_t info, index_t rows = tile) { return (info - 1) / rows * rows; }

class CholeskyConformance : public test::OnTileMachine {
 protected:
  template <Scalar T>
  runtime::JobStatistics expect_right(const CholeskyCase& c, unsigned seed, index_t forced = tile) {
    CholeskyFixture<T> fixture(c, seed);
    const runtime::JobStatistics statistics = cholesky(*runtime_, fixture.call(), forced);
    EXPECT_TRUE(fixture.check(statistics.info, final_columns(statistics.info, forced)))
        << "type " << letter(scalar_type_of<T>());
    EXPECT_EQ(statistics.restarts, 0);
    return statistics;
  }
  runtime::JobStatistics expect_right(ScalarType type, const CholeskyCase& c, unsigned seed, index_t forced = tile) {
    return dispatch(type, [&]<Scalar T>(T) { return expect_right<T>(c, seed, forced); });
  }
};

TEST_P(CholeskyConformance, EverySize) {
  unsigned seed = 1;
  for (const index_t n :
       {index_t{1}, index_t{2}, tile - 1, tile, tile + 1, 2 * tile, 3 * tile + 5, 7 * tile + 1, 12 * tile + 3}) {
    for (const ScalarType type : test::all_types) {
      for (const Uplo uplo : test::all_uplos) {
        for (const index_t padding : {0, 5}) expect_right(type, {.uplo = uplo, .n = n, .padding = padding}, seed++);
      }
    }
  }
}

TEST_P(CholeskyConformance, TilesThatAreFactoredInBlocks) {
  if (GetParam().devices > 2 || GetParam().tiles < 4096)
    GTEST_SKIP() << "takes too long, or has no memory for large tiles";
  constexpr index_t n = 325;
  unsigned seed = 500;
  for (const ScalarType type : test::all_types) {
    for (const Uplo uplo : test::all_uplos) {
      for (const index_t at : {-1, 300}) {
        for (const index_t rows : {n, index_t{150}}) {
          expect_right(type, {.uplo = uplo, .n = n, .indefinite_at = at}, seed++, rows);
        }
      }
    }
  }
}

TEST_P(CholeskyConformance, TellsWhichMinorIsNotPositiveDefinite) {
  constexpr index_t n = 5 * tile + 3;
  unsigned seed = 1000;
  for (const ScalarType type : test::all_types) {
    for (const Uplo uplo : test::all_uplos) {
      for (const index_t at : {index_t{0}, tile - 1, tile, 2 * tile + 3, 4 * tile - 1, 5 * tile, n - 1}) {
        for (const bool with_nan : {false, true}) {
          const auto statistics =
              expect_right(type, {.uplo = uplo, .n = n, .indefinite_at = at, .with_nan = with_nan}, seed++);
          EXPECT_EQ(statistics.info, at + 1);
        }
      }
      EXPECT_EQ(expect_right(type, {.uplo = uplo, .n = n}, seed++).info, 0) << "the call after them";
    }
  }
}

// Tasks that are left out must not stand in the way of those before them, of which many may still be to do.
TEST_P(CholeskyConformance, FinishesTheColumnsBeforeAMinorOfALargeMatrix) {
  if (GetParam().unequal) GTEST_SKIP() << "takes too long";
  unsigned seed = 2000;
  for (const Uplo uplo : test::all_uplos) {
    for (const index_t column : {0, 1, 2, 3, 4, 7, 11, 17})
      expect_right<double>({.uplo = uplo, .n = 18 * tile + 1, .indefinite_at = column * tile + 3}, seed++);
  }
}

TEST_P(CholeskyConformance, MovesEachTileOnceWhereThereIsMemory) {
  if (GetParam().tiles < 4096 || GetParam().unequal || !GetParam().peers)
    GTEST_SKIP() << "moves more, or takes too long";
  for (const Uplo uplo : test::all_uplos) {
    const auto statistics = expect_right<double>({.uplo = uplo, .n = 9 * tile + 3}, 3);
    EXPECT_EQ(statistics.bytes_up(), statistics.compulsory_up);
    EXPECT_EQ(statistics.bytes_down(), statistics.compulsory_down);
  }
}

TESSERA_ON_TILE_MACHINES(CholeskyConformance);

// --- losses ---

/// @return how often it began again
template <Scalar T>
std::int64_t compute(test::HostRuntime& machine, const CholeskyCase& c, const std::string& what) {
  CholeskyFixture<T> fixture(c, 5);
  try {
    const runtime::JobStatistics statistics = cholesky(*machine.runtime, fixture.call(), tile);
    EXPECT_TRUE(fixture.check(statistics.info, final_columns(statistics.info))) << what;
    return statistics.restarts;
  } catch (const NoDeviceLeft&) {  // A is untouched
    EXPECT_TRUE(machine.runtime->devices().empty()) << what;
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": " << error.what();
  }
  return 0;
}

TEST(CholeskyFaultModel, ALossAtAnyMomentLeavesFactorAndInfoRight) {
  constexpr FailingOperation operations[] = {FailingOperation::up, FailingOperation::down, FailingOperation::peer,
                                             FailingOperation::to_peer, FailingOperation::kernel};
  constexpr index_t n = 4 * tile + 3;
  std::int64_t restarts = 0;
  for (const int devices : {1, 2, 3}) {
    for (const index_t tiles : {4000, 20}) {
      for (const FailingOperation operation : operations) {
        for (const std::int64_t number : {0, 1, 4, 9, 14, 19, 30}) {
          HostDeviceSettings settings;
          settings.memory_bytes = static_cast<std::size_t>(tiles * tile * tile) * sizeof(double);
          std::vector<HostDeviceSettings> all(static_cast<std::size_t>(devices), settings);
          all.front().failing_operation = operation;
          all.front().fail_after_ops = number;
          const char* const kept = number % 4 == 0 ? "on" : "peers";
          test::HostRuntime machine(all, Config::from_settings(std::string("TESSERA_KEEP_OLD_VALUES=") + kept));
          std::ostringstream what;
          what << "operation " << number << " of kind " << static_cast<int>(operation) << ", " << devices
               << " devices, " << tiles << " tiles";
          const Uplo uplo = number % 2 == 0 ? Uplo::lower : Uplo::upper;
          const index_t indefinite_at = number % 3 == 0 ? 2 * tile + 3 : -1;
          restarts += compute<double>(machine, {.uplo = uplo, .n = n, .indefinite_at = indefinite_at}, what.str());
          compute<double>(machine, {.uplo = uplo, .n = n}, what.str() + ", the call after it");
        }
      }
    }
  }
  EXPECT_GT(restarts, 20);
}

// The written part of a tile stays. The CPU computes the other part, after the tiles that it depends on.
TEST(CholeskyFaultModel, ALossInAnyCopyDownLeavesTheFactorRight) {
  constexpr index_t n = 4 * tile + 3;
  constexpr std::int64_t tiles = 15;
  for (const int devices : {1, 2}) {
    for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
      std::int64_t restarts = 0;
      for (std::int64_t number = 0; number < tiles; ++number) {
        std::vector<HostDeviceSettings> all(static_cast<std::size_t>(devices));
        all.front().failing_operation = FailingOperation::down;
        all.front().fail_after_ops = number;
        test::HostRuntime machine(all, Config::from_settings("TESSERA_KEEP_OLD_VALUES=on"));
        std::ostringstream what;
        what << "copy down " << number << ", " << devices << " devices";
        restarts += compute<double>(machine, {.uplo = uplo, .n = n}, what.str());
      }
      EXPECT_GT(restarts, 0);
    }
  }
}

// --- the schedule ---

TEST(CholeskyScheduleModel, IsNearTheBound) {
  const auto run_on = [](int devices, double memory_gb, double fraction) {
    test::ModelledMachine machine = test::modelled_h200(devices);
    machine.memory_bytes = static_cast<std::size_t>(memory_gb * 1e9);
    const test::ModelledRun run = test::modelled_run(machine, CholeskyCall{.n = 30000});
    EXPECT_GT(run.fraction_of_bound(), fraction) << devices << " devices, " << memory_gb << " GB";
    EXPECT_EQ(run.still_pinned, 0);
    EXPECT_EQ(run.missed_wakeups, 0);
    return run;
  };
  for (const int devices : {1, 2}) {
    const test::ModelledRun run = run_on(devices, 100, devices == 1 ? 0.75 : 0.68);
    EXPECT_EQ(run.bytes_up, run.compulsory_up);
    EXPECT_EQ(run.bytes_down, run.compulsory_down);
  }
  EXPECT_EQ(run_on(1, 4.3, 0.66).bytes_up, run_on(2, 4.3, 0.66).bytes_up) << "each tile once, too";
}

}  // namespace cholesky_test
}  // namespace tessera::routines
