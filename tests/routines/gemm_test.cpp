// gemm through the tile runtime: every parameter, on several devices of equal and unequal speed, with plenty of memory and with
// as little as allowed.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/error.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/level3.hpp"
#include "routines/tiling.hpp"
#include "tests/device/backends.hpp"
#include "tests/routines/gemm_problem.hpp"

namespace tessera::routines {
namespace gemm_test {

using test::GemmCase;

// The devices of a suite. Each has room for `slots` tiles of 8 x 8 complex doubles. The smallest number that the
// invariant allows is an output and one step's inputs for each of four streams.
struct DeviceSet {
  const char* name;
  bool cuda;
  int devices;
  index_t slots;
  bool unequal;
  int copy_threads = 0;  ///< GPUs stage pageable memory with so many
  friend std::ostream& operator<<(std::ostream& out, const DeviceSet& set) { return out << set.name; }
};

constexpr index_t tile = 8;
constexpr index_t plenty = 4096;
constexpr index_t fewest = 12;

std::unique_ptr<runtime::Runtime> make_runtime(test::OpenedDevices& opened, std::size_t memory_bytes) {
  Config config;
  config.device_memory_bytes = memory_bytes;
  return std::make_unique<runtime::Runtime>(std::move(opened.accelerators), config,
                                            [](const Level3& product) { kernels::reference_gemm(product); });
}

class GemmConformance : public ::testing::TestWithParam<DeviceSet> {
 protected:
  void SetUp() override {
    const DeviceSet& set = GetParam();
    const auto memory = static_cast<std::size_t>(set.slots * tile * tile) * sizeof(std::complex<double>);
    if (set.cuda) {
      opened_ = test::open_cuda_devices(set.devices, set.copy_threads);
      if (!opened_.missing.empty()) {
        if (test::cuda_required()) FAIL() << opened_.missing;
        GTEST_SKIP() << opened_.missing;
      }
    } else {
      std::vector<HostDeviceSettings> settings(static_cast<std::size_t>(set.devices));
      for (std::size_t d = 0; d < settings.size(); ++d) {
        settings[d].memory_bytes = memory;
        if (set.unequal) {
          settings[d].flops_per_s = d == 0 ? 1e7 : 1e8;
          settings[d].link_bytes_per_s = d % 2 == 0 ? 1e9 : 0;
          settings[d].peer_bytes_per_s = d == 1 ? 5e8 : 0;
        }
      }
      opened_ = test::open_host_devices(set.devices, settings, test::cpu_blas());
    }
    runtime_ = make_runtime(opened_, memory);
  }

  test::OpenedDevices opened_;
  std::unique_ptr<runtime::Runtime> runtime_;
};

TEST_P(GemmConformance, AllSizes) {
  const index_t sizes[] = {1, tile - 1, tile, tile + 1, 3 * tile + 5};
  unsigned seed = 1;
  for (const index_t m : sizes) {
    for (const index_t n : sizes) {
      for (const index_t k : sizes) {
        test::expect_right_in_all_types(*runtime_, {.m = m, .n = n, .k = k, .alpha = 1.25, .beta = -0.5}, tile, seed++);
      }
    }
  }
}

TEST_P(GemmConformance, AllOps) {
  unsigned seed = 1000;
  for (const Op op_a : test::all_ops) {
    for (const Op op_b : test::all_ops) {
      for (const index_t k : {tile - 3, 2 * tile + 1}) {
        const GemmCase c{
            .op_a = op_a, .op_b = op_b, .m = 2 * tile + 3, .n = tile + 1, .k = k, .alpha = {0.5, -2}, .beta = {2, 1}};
        test::expect_right_in_all_types(*runtime_, c, tile, seed++);
      }
    }
  }
}

TEST_P(GemmConformance, AllFactors) {
  const AnyScalar alphas[] = {1, -0.75, {0, 1}};
  const AnyScalar betas[] = {0, 1, -2.5, {0.5, -1}};
  unsigned seed = 2000;
  for (const AnyScalar alpha : alphas) {
    for (const AnyScalar beta : betas) {
      // A real type sees only the real part; alpha = i would then be no product at all.
      const bool real = alpha.imag() == 0;
      for (const index_t padding : {index_t{0}, index_t{5}}) {
        const GemmCase c{
            .m = 2 * tile + 1, .n = 3 * tile, .k = 2 * tile + 7, .alpha = alpha, .beta = beta, .padding = padding};
        if (real) {
          test::expect_right_in_all_types(*runtime_, c, tile, seed++);
        } else {
          test::GemmFixture<std::complex<double>> fixture(c, seed++);
          run(*runtime_, fixture.problem(), tile);
          EXPECT_TRUE(fixture.check());
        }
      }
    }
  }
}

TEST_P(GemmConformance, ManyTiles) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    const GemmCase c{.op_b = Op::trans, .m = 9 * tile + 1, .n = 7 * tile - 1, .k = 8 * tile, .alpha = -1, .beta = 0.25};
    test::GemmFixture<double> fixture(c, seed);
    const auto statistics = run(*runtime_, fixture.problem(), tile);
    EXPECT_TRUE(fixture.check());
    EXPECT_EQ(statistics.bytes_down(), statistics.compulsory_down);
    EXPECT_GE(statistics.bytes_up(), statistics.compulsory_up);
    EXPECT_EQ(statistics.restarts, 0);
    std::int64_t tasks = 0;
    for (const auto& device : statistics.devices) tasks += device.tasks;
    EXPECT_EQ(tasks, 10 * 7);
  }
}

// The same operand twice, and matrices that are parts of one allocation.
TEST_P(GemmConformance, SharedStorage) {
  constexpr index_t n = 3 * tile + 2;
  constexpr index_t ld = 3 * n + 1;
  std::mt19937_64 random(7);
  std::vector<double> all = test::random_matrix<double>(ld, n, ld, random);
  const std::vector<double> before = all;
  Level3 problem{.op_b = Op::trans,
                 .m = n,
                 .n = n,
                 .k = n,
                 .alpha = 1.5,
                 .A = all.data(),
                 .lda = ld,
                 .B = all.data(),
                 .ldb = ld,
                 .beta = 1,
                 .C = all.data() + n,
                 .ldc = ld};
  run(*runtime_, problem, tile);
  std::vector<double> expected = before;
  kernels::reference_gemm<double, long double>(Op::no_trans, Op::trans, n, n, n, 1.5, before.data(), ld, before.data(),
                                               ld, 1.0, expected.data() + n, ld);
  for (index_t j = 0; j < n; ++j) {
    for (index_t i = 0; i < ld; ++i) {
      const auto at = static_cast<std::size_t>(i + j * ld);
      if (i >= n && i < 2 * n) {
        EXPECT_NEAR(all[at], expected[at], 1e-12);
      } else {
        EXPECT_EQ(all[at], before[at]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Host, GemmConformance,
                         ::testing::Values(DeviceSet{"host_1_plenty", false, 1, plenty, false},
                                           DeviceSet{"host_1_fewest", false, 1, fewest, false},
                                           DeviceSet{"host_2_plenty", false, 2, plenty, false},
                                           DeviceSet{"host_2_fewest", false, 2, fewest, false},
                                           DeviceSet{"host_3_unequal", false, 3, plenty, true},
                                           DeviceSet{"host_3_unequal_fewest", false, 3, fewest, true},
                                           DeviceSet{"host_5_plenty", false, 5, plenty, false},
                                           DeviceSet{"host_5_fewest", false, 5, fewest, false}),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Cuda, GemmConformance,
                         ::testing::Values(DeviceSet{"cuda_1_plenty", true, 1, plenty, false},
                                           DeviceSet{"cuda_1_staged", true, 1, plenty, false, 3},
                                           DeviceSet{"cuda_1_fewest", true, 1, fewest, false}),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(MultiGpu, GemmConformance,
                         ::testing::Values(DeviceSet{"cuda_2_plenty", true, 2, plenty, false},
                                           DeviceSet{"cuda_2_staged", true, 2, plenty, false, 3},
                                           DeviceSet{"cuda_2_fewest", true, 2, fewest, false}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace gemm_test
}  // namespace tessera::routines
