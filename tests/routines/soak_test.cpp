// Random calls on random host devices that are lost at random operations: every result is right. Without
// TESSERA_SOAK_SECONDS, the test makes some calls, always the same ones. With it, the test makes calls for so many
// seconds, from the seed of the clock or of TESSERA_SOAK_SEED. A failure names the seed that repeats it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdlib>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/config.hpp"
#include "core/error.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/lapack.hpp"
#include "routines/level3.hpp"
#include "runtime/runtime.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/cholesky_problem.hpp"
#include "tests/routines/columns_problem.hpp"
#include "tests/routines/host_runtime.hpp"

namespace tessera::routines {
namespace soak_test {

/// One machine and what is called on it, all of it drawn from a seed.
class Scene {
 public:
  explicit Scene(std::uint64_t seed) : seed_(seed), random_(seed) {
    const int devices = below(3) + 1;
    std::vector<HostDeviceSettings> all;
    for (int d = 0; d < devices; ++d) all.push_back(settings());
    if (chance(0.3)) {
      for (HostDeviceSettings& device : all) device.peers = false;
    }
    // Old values that are kept by peers survive one loss at a time.
    const bool one_loss = chance(0.6);
    if (one_loss) {
      for (std::size_t d = 1; d < all.size(); ++d) all[d].fail_after_ops = -1;
      std::shuffle(all.begin(), all.end(), random_);
    }
    Config config;
    config.keep_old_values = one_loss && chance(0.5) ? OldValuesPlace::peers
                             : chance(0.5)           ? OldValuesPlace::in_place
                                                     : OldValuesPlace::host;
    host_ = std::make_unique<test::HostRuntime>(all, config);
  }

  void play() {
    const int callers = chance(0.3) ? 4 : 1;
    std::vector<std::uint64_t> seeds;
    for (int caller = 0; caller < callers; ++caller) seeds.push_back(random_());
    std::vector<std::thread> threads;
    for (const std::uint64_t seed : seeds) threads.emplace_back([this, seed] { call(seed); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  bool chance(double part) { return std::uniform_real_distribution<double>(0, 1)(random_) < part; }

  HostDeviceSettings settings() {
    HostDeviceSettings device;
    device.memory_bytes = std::size_t{64} << (10 + below(8));
    if (chance(0.3)) device.link_bytes_per_s = 1e8 * (1 + below(50));
    if (chance(0.3)) device.flops_per_s = 1e9 * (1 + below(20));
    if (chance(0.2)) device.delay_s = 1e-5 * below(20);
    if (chance(0.2)) device.segment_bytes = static_cast<std::size_t>(8 << below(6));
    if (chance(0.6)) {
      constexpr FailingOperation kinds[] = {FailingOperation::any,     FailingOperation::up,
                                            FailingOperation::down,    FailingOperation::peer,
                                            FailingOperation::to_peer, FailingOperation::kernel};
      device.failing_operation = kinds[below(6)];
      device.fail_after_ops = below(chance(0.5) ? 20 : 200);
    }
    if (chance(0.2)) device.refused_op = below(100);
    return device;
  }

  void call(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
    for (int number = 0; number < 3; ++number) {
      if (draw(8) == 0) {
        const index_t n = 1 + draw(120);
        const test::CholeskyCase matrix{.uplo = test::all_uplos[draw(2)],
                                        .n = n,
                                        .indefinite_at = draw(2) == 0 ? -1 : index_t{draw(static_cast<int>(n))}};
        const index_t tile = draw(3) == 0 ? 0 : 8 + draw(24);
        draw(2) == 0 ? factor<double>(matrix, tile, seed) : factor<std::complex<double>>(matrix, tile, seed);
        continue;
      }
      if (draw(8) == 0) {
        const test::ColumnsCase matrix{
            .kind = static_cast<kernels::PanelKind>(draw(3)), .m = 1 + draw(120), .n = 1 + draw(120)};
        const index_t columns = draw(3) == 0 ? 0 : 4 + draw(24);
        draw(2) == 0 ? factor_columns<double>(matrix, columns, seed)
                     : factor_columns<std::complex<double>>(matrix, columns, seed);
        continue;
      }
      test::Level3Case problem;
      problem.routine = test::all_routines[draw(std::size(test::all_routines))];
      problem.side = test::all_sides[draw(2)];
      problem.uplo = test::all_uplos[draw(2)];
      problem.diag = test::all_diags[draw(2)];
      problem.op_a = test::all_ops[draw(3)];
      problem.op_b = test::all_ops[draw(3)];
      problem.m = 1 + draw(90);
      problem.n = 1 + draw(90);
      problem.k = 1 + draw(90);
      problem.alpha = 2;
      problem.beta = 0.5 * draw(3);
      const index_t tile = draw(3) == 0 ? 0 : 8 + draw(24);
      if (Level3{.routine = problem.routine}.is_hermitian() || draw(4) == 0) {
        compute<std::complex<double>>(problem, tile, static_cast<unsigned>(seed));
      } else {
        compute<double>(problem, tile, static_cast<unsigned>(seed));
      }
    }
  }

  template <Scalar T>
  void compute(const test::Level3Case& problem, index_t tile, unsigned seed) {
    test::Level3Fixture<T> fixture(problem, seed);
    std::ostringstream what;
    what << "TESSERA_SOAK_SEED=" << seed_ << ": " << problem << " tile " << tile;
    try {
      host_->run_or_compute(fixture.problem(), tile, {.always = seed % 3 == 0});
    } catch (const std::exception& error) {
      ADD_FAILURE() << what.str() << ": " << error.what();
      return;
    }
    EXPECT_TRUE(fixture.check()) << what.str();
  }

  template <Scalar T>
  void factor(const test::CholeskyCase& matrix, index_t tile, std::uint64_t seed) {
    test::CholeskyFixture<T> fixture(matrix, static_cast<unsigned>(seed));
    std::ostringstream what;
    what << "TESSERA_SOAK_SEED=" << seed_ << ": potrf tile " << tile;
    try {
      const runtime::JobStatistics statistics = cholesky(*host_->runtime, fixture.call(), tile);
      // The tiles that are chosen are larger than these matrices, unless memory is short.
      const index_t rows = statistics.tile_m;
      EXPECT_TRUE(fixture.check(statistics.info, (statistics.info - 1) / rows * rows)) << what.str();
    } catch (const NoDeviceLeft&) {       // A is untouched
    } catch (const OutOfDeviceMemory&) {  // likewise
    } catch (const std::exception& error) {
      ADD_FAILURE() << what.str() << ": " << error.what();
    }
  }

  template <Scalar T>
  void factor_columns(const test::ColumnsCase& matrix, index_t columns, std::uint64_t seed) {
    test::ColumnsFixture<T> fixture(matrix, static_cast<unsigned>(seed));
    std::ostringstream what;
    what << "TESSERA_SOAK_SEED=" << seed_ << ": " << matrix << ", columns " << columns;
    try {
      const runtime::JobStatistics statistics = fixture.run(*host_->runtime, columns);
      EXPECT_TRUE(fixture.check(statistics.info)) << what.str();
    } catch (const NoDeviceLeft&) {       // A is untouched
    } catch (const OutOfDeviceMemory&) {  // likewise
    } catch (const std::exception& error) {
      ADD_FAILURE() << what.str() << ": " << error.what();
    }
  }

  const std::uint64_t seed_;
  std::mt19937_64 random_;
  std::unique_ptr<test::HostRuntime> host_;
};

TEST(SoakModel, WhateverIsLostTheResultIsRight) {
  const char* const seconds = std::getenv("TESSERA_SOAK_SECONDS");
  const char* const chosen = std::getenv("TESSERA_SOAK_SEED");
  if (chosen != nullptr) {
    Scene(std::strtoull(chosen, nullptr, 10)).play();
    return;
  }
  if (seconds == nullptr) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) Scene(seed).play();
    return;
  }
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto end = now() + std::chrono::seconds(std::strtol(seconds, nullptr, 10));
  auto seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  int scenes = 0;
  for (; now() < end && !HasFailure(); ++scenes) Scene(seed++).play();
  std::printf("%d machines, up to seed %llu\n", scenes, static_cast<unsigned long long>(seed - 1));
}

}  // namespace soak_test
}  // namespace tessera::routines
