// All ten routines through the tile runtime: every variant, on several devices of equal and unequal speed, with plenty of memory
// and with as little as allowed. Opposite triangles, unit diagonals and padding are poisoned; failures are injected.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/level3.hpp"
#include "routines/tiling.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"

namespace tessera::routines {
namespace level3_test {

using test::Level3Case;
using test::Level3Fixture;

struct Machine {
  const char* name;
  bool cuda;
  int devices;
  bool fewest;  ///< memory for an output and one step's inputs per stream, no more
  bool unequal;
  bool peers = true;
  int copy_threads = 0;       ///< GPUs stage pageable memory with so many
  bool cpu_worker = false;    ///< the CPU takes what tiles it can get
  bool tall = false;          ///< tiles of operands are taller than those of C where they can be
  bool slow_link = false;     ///< it takes longest, so that a device goes from one task to the next
  bool slow_kernels = false;  ///< products of tiles are long, so that steps of a task go to different streams
  friend std::ostream& operator<<(std::ostream& out, const Machine& machine) { return out << machine.name; }
};

std::unique_ptr<runtime::Runtime> make_runtime(std::vector<kernels::Accelerator> accelerators,
                                               std::size_t memory_bytes) {
  Config config;
  config.device_memory_bytes = memory_bytes;
  return std::make_unique<runtime::Runtime>(std::move(accelerators), config,
                                            [](const Level3& call) { kernels::reference_level3(call); });
}

class Level3Conformance : public ::testing::TestWithParam<Machine> {
 protected:
  static constexpr index_t tile = 8;

  void SetUp() override {
    const Machine& machine = GetParam();
    const std::size_t memory =
        static_cast<std::size_t>((machine.fewest ? 12 : 4096) * tile * tile) * sizeof(std::complex<double>);
    if (machine.cuda) {
      opened_ = test::open_cuda_devices(machine.devices, machine.copy_threads);
      if (!opened_.missing.empty()) {
        if (test::cuda_required()) FAIL() << opened_.missing;
        GTEST_SKIP() << opened_.missing;
      }
    } else {
      std::vector<HostDeviceSettings> settings(static_cast<std::size_t>(machine.devices));
      for (std::size_t d = 0; d < settings.size(); ++d) {
        settings[d].memory_bytes = memory;
        settings[d].peers = machine.peers;
        if (machine.tall) settings[d].segment_bytes = 3 * tile * sizeof(double);
        if (machine.slow_link) {
          settings[d].flops_per_s = 1e12;
          settings[d].link_bytes_per_s = 2e8;
        }
        // A fifth of a millisecond is long (DeviceProfile::ranked_kernel_s); triangular products and solves take half of it.
        if (machine.slow_kernels) settings[d].flops_per_s = 2.0 * tile * tile * tile / 2.5e-4;
        if (machine.unequal) {
          settings[d].flops_per_s = d == 0 ? 2e7 : 2e8;
          settings[d].link_bytes_per_s = d % 2 == 0 ? 1e9 : 0;
        }
      }
      opened_ = test::open_host_devices(machine.devices, settings, test::cpu_blas());
    }
    runtime_ = make_runtime(std::move(opened_.accelerators), memory);
  }

  template <Scalar T>
  void expect_right(Level3Case c, unsigned seed) {
    Level3Fixture<T> fixture(c, seed);
    const Level3 problem = fixture.problem();
    if (problem.only_scales()) return;  // never gets to the devices
    run(*runtime_, problem, tile, {.always = GetParam().cpu_worker});
    EXPECT_TRUE(fixture.check()) << "type " << letter(scalar_type_of<T>());
  }
  void expect_right(ScalarType type, const Level3Case& c, unsigned seed) {
    dispatch(type, [&]<Scalar T>(T) { expect_right<T>(c, seed); });
  }

  test::OpenedDevices opened_;
  std::unique_ptr<runtime::Runtime> runtime_;
};

TEST_P(Level3Conformance, EveryVariant) {
  unsigned seed = 1;
  for (const Routine routine : test::all_routines) {
    const Level3Case base{.routine = routine,
                          .m = 3 * tile + 5,
                          .n = 2 * tile + 3,
                          .k = 2 * tile + 1,
                          .alpha = {0.75, -0.5},
                          .beta = {-1.5, 0.25}};
    for (const ScalarType type : test::types_of(routine)) {
      test::for_each_variant(type, base, [&](const Level3Case& c) { expect_right(type, c, seed++); });
    }
  }
}

TEST_P(Level3Conformance, EverySize) {
  const index_t sizes[] = {1, tile - 1, tile, tile + 1, 4 * tile + 3};
  unsigned seed = 5000;
  for (const Routine routine : test::all_routines) {
    const ScalarType type = test::types_of(routine).size() == 4 ? ScalarType::d : ScalarType::z;
    for (const index_t m : sizes) {
      for (const index_t n : sizes) {
        for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
          if (uplo == Uplo::upper && routine == Routine::gemm) continue;  // has none
          for (const Side side : {Side::left, Side::right}) {
            if (side == Side::right && Level3{.routine = routine}.has_k()) continue;  // likewise
            expect_right(
                type,
                {.routine = routine, .side = side, .uplo = uplo, .m = m, .n = n, .k = m, .alpha = 1.5, .beta = 0.5},
                seed++);
          }
        }
      }
    }
  }
}

TEST_P(Level3Conformance, EveryFactor) {
  unsigned seed = 9000;
  for (const Routine routine : test::all_routines) {
    for (const ScalarType type : test::types_of(routine)) {
      for (const AnyScalar alpha : {AnyScalar(1), AnyScalar(-0.5, 0.25)}) {
        for (const AnyScalar beta : {AnyScalar(0), AnyScalar(1), AnyScalar(2, -1)}) {
          if (beta != AnyScalar(0) && Level3{.routine = routine}.is_triangular()) continue;  // has none
          for (const index_t padding : {0, 4}) {
            expect_right(type,
                         {.routine = routine,
                          .m = 2 * tile + 1,
                          .n = 3 * tile,
                          .k = tile + 2,
                          .alpha = alpha,
                          .beta = beta,
                          .padding = padding},
                         seed++);
          }
        }
      }
    }
  }
}

// Of few tiles of C and a long k: several devices add up ranges of it apart.
TEST_P(Level3Conformance, LongSums) {
  unsigned seed = 11000;
  for (const Routine routine : test::all_routines) {
    if (!Level3{.routine = routine}.has_k()) continue;
    for (const index_t size : {tile - 3, tile + 3}) {
      const Level3Case base{.routine = routine,
                            .m = size,
                            .n = size,
                            .k = 41 * tile + 5,
                            .alpha = {0.75, -0.5},
                            .beta = size < tile ? AnyScalar(0) : AnyScalar(-1.5, 0.25)};
      for (const ScalarType type : test::types_of(routine))
        test::for_each_variant(type, base, [&](const Level3Case& c) { expect_right(type, c, seed++); });
    }
  }
}

// A triangular sweep over a single line of tiles depends on itself from end to end; of many lines some begin together.
TEST_P(Level3Conformance, ThinAndWideTriangularProblems) {
  struct Extent {
    index_t along, across;  // the triangle's side, and the other one of B
  };
  unsigned seed = 12000;
  for (const Routine routine : {Routine::trmm, Routine::trsm}) {
    for (const Side side : {Side::left, Side::right}) {
      for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
        for (const Extent extent : {Extent{11 * tile + 1, 3}, Extent{3 * tile + 1, 13 * tile + 3}}) {
          const bool left = side == Side::left;
          expect_right<double>({.routine = routine,
                                .side = side,
                                .uplo = uplo,
                                .m = left ? extent.along : extent.across,
                                .n = left ? extent.across : extent.along,
                                .alpha = 2},
                               seed++);
        }
      }
    }
  }
}

TEST_P(Level3Conformance, TriangularSystemsOfAllKinds) {
  unsigned seed = 13000;
  for (const test::Triangle triangle : test::harder_triangles) {
    for (const ScalarType type : test::all_types) {
      Level3Case base{.routine = Routine::trsm, .m = 5 * tile + 3, .n = 4 * tile + 1, .alpha = 0.75};
      base.triangle = triangle;
      test::for_each_variant(type, base, [&](const Level3Case& c) {
        // Two of five, others for each triangle and type.
        if (++seed % 5 < 2) expect_right(type, c, seed);
      });
    }
  }
}

// With so many lines, products begin with some of them all at once.
TEST_P(Level3Conformance, WideTriangularProducts) {
  unsigned seed = 14000;
  const Level3Case base{
      .routine = Routine::trmm, .m = 3 * tile + 1, .n = (6 * GetParam().devices + 1) * tile + 3, .alpha = {0.75, -0.5}};
  for (const ScalarType type : test::types_of(Routine::trmm)) {
    test::for_each_variant(type, base, [&](Level3Case c) {
      if (c.side == Side::right) std::swap(c.m, c.n);
      expect_right(type, c, seed++);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Host, Level3Conformance,
    ::testing::Values(Machine{"host_1", false, 1, false, false}, Machine{"host_1_fewest", false, 1, true, false},
                      Machine{"host_2", false, 2, false, false}, Machine{"host_2_fewest", false, 2, true, false},
                      Machine{"host_3_unequal", false, 3, false, true},
                      Machine{"host_3_unequal_fewest", false, 3, true, true},
                      Machine{"host_3_without_peers", false, 3, false, false, false},
                      Machine{"host_3_without_peers_fewest", false, 3, true, false, false},
                      Machine{"host_2_and_cpu", false, 2, false, true, true, 0, true},
                      Machine{"host_2_tall", false, 2, false, false, true, 0, false, true},
                      Machine{"host_2_tall_and_cpu", false, 2, false, true, true, 0, true, true},
                      Machine{"host_1_slow_link", false, 1, false, false, true, 0, false, false, true},
                      Machine{"host_1_tall_and_cpu_slow_link", false, 1, false, false, true, 0, true, true, true},
                      Machine{"host_1_slow_kernels", false, 1, false, false, true, 0, false, false, false, true},
                      Machine{"host_5", false, 5, false, false}, Machine{"host_5_fewest", false, 5, true, false}),
    [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Cuda, Level3Conformance,
                         ::testing::Values(Machine{"cuda_1", true, 1, false, false},
                                           Machine{"cuda_1_staged", true, 1, false, false, true, 3},
                                           Machine{"cuda_1_and_cpu", true, 1, false, false, true, 0, true},
                                           Machine{"cuda_1_fewest", true, 1, true, false}),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(MultiGpu, Level3Conformance,
                         ::testing::Values(Machine{"cuda_2", true, 2, false, false},
                                           Machine{"cuda_2_staged", true, 2, false, false, true, 3},
                                           Machine{"cuda_2_fewest", true, 2, true, false}),
                         [](const auto& info) { return std::string(info.param.name); });

// --- traffic and failures, on host devices ---

constexpr index_t tile = 16;

struct HostRuntime {
  HostRuntime(int devices, std::size_t tiles, std::int64_t fail_after_ops = -1, std::size_t segment_bytes = 0) {
    HostDeviceSettings settings;
    settings.segment_bytes = segment_bytes;
    settings.memory_bytes = tiles * tile * tile * sizeof(double);
    std::vector<HostDeviceSettings> all(static_cast<std::size_t>(devices), settings);
    all.back().fail_after_ops = fail_after_ops;
    opened = test::open_host_devices(devices, all, test::cpu_blas());
    runtime = make_runtime(std::move(opened.accelerators), settings.memory_bytes);
  }
  test::OpenedDevices opened;
  std::unique_ptr<runtime::Runtime> runtime;
};

/// Devices, and rows that columns of a tile should have (0: any will do).
class Level3TrafficModel : public ::testing::TestWithParam<std::pair<int, index_t>> {};

// Only stored and written triangles move, and each of their elements once.
TEST_P(Level3TrafficModel, NothingMovesTwiceWhereMemorySuffices) {
  constexpr index_t n = 7 * tile + 3;
  const auto [devices, segment_rows] = GetParam();
  HostRuntime host(devices, 400, -1, static_cast<std::size_t>(segment_rows) * sizeof(double));
  constexpr index_t full = n * n * 8;
  constexpr index_t triangle = n * (n + 1) / 2 * 8;
  const auto run_case = [&](Routine routine, double beta) {
    Level3Fixture<double> fixture({.routine = routine, .m = n, .n = n, .k = n, .alpha = 1, .beta = beta}, 3);
    const auto statistics = run(*host.runtime, fixture.problem(), tile);
    EXPECT_TRUE(fixture.check());
    EXPECT_EQ(statistics.bytes_up(), statistics.compulsory_up) << name_of(routine);
    EXPECT_EQ(statistics.bytes_down(), statistics.compulsory_down) << name_of(routine);
    return statistics;
  };
  EXPECT_EQ(run_case(Routine::gemm, 1).compulsory_up, 3 * full);
  EXPECT_EQ(run_case(Routine::symm, 1).compulsory_up, triangle + 2 * full);
  EXPECT_EQ(run_case(Routine::symm, 0).compulsory_up, triangle + full);
  EXPECT_EQ(run_case(Routine::syrk, 1).compulsory_up, full + triangle);
  EXPECT_EQ(run_case(Routine::syrk, 0).compulsory_down, triangle);
  EXPECT_EQ(run_case(Routine::syr2k, 1).compulsory_up, 2 * full + triangle);
  EXPECT_EQ(run_case(Routine::gemmt, 1).compulsory_up, 2 * full + triangle);
  EXPECT_EQ(run_case(Routine::gemmt, 0).compulsory_down, triangle);
  EXPECT_EQ(run_case(Routine::trmm, 0).compulsory_up, triangle + full);
  EXPECT_EQ(run_case(Routine::trsm, 0).compulsory_up, triangle + full);
}

INSTANTIATE_TEST_SUITE_P(Host, Level3TrafficModel,
                         ::testing::Values(std::pair(1, 0), std::pair(2, 0), std::pair(4, 0), std::pair(1, 2 * tile),
                                           std::pair(2, 3 * tile)));

// Columns of whole pages, of two segments each, are cut into tiles of two sizes, whose sides no longer are multiples of one number.
class Level3UnevenTiles : public ::testing::Test {
 protected:
  static constexpr index_t segments = 4;  // in a column

  void expect_right(const HostRuntime& host, index_t segment_bytes, ScalarType type, const Level3Case& base) {
    test::for_each_variant(type, base, [&](const Level3Case& c) {
      dispatch(type, [&]<Scalar T>(T) {
        Level3Fixture<T> fixture(c, seed_++);
        const Level3 call = fixture.problem();
        const runtime::Machine machine{1, std::size_t{1} << 30, segment_bytes};
        EXPECT_NE(choose_tiling(shape_of(call), machine, 0).skew_m, 0) << name_of(call);
        const auto statistics = run(*host.runtime, call, 0);
        EXPECT_TRUE(fixture.check()) << name_of(call);
        EXPECT_EQ(statistics.tile_m, segment_bytes / static_cast<index_t>(sizeof(T)));
        EXPECT_EQ(statistics.bytes_up(), statistics.compulsory_up);
        EXPECT_EQ(statistics.bytes_down(), statistics.compulsory_down);
      });
    });
  }

  unsigned seed_ = 1;
};

TEST_F(Level3UnevenTiles, EveryVariantOfProductsAndSolves) {
  constexpr index_t n = 64;
  constexpr index_t segment_bytes = n / segments * sizeof(double);
  HostRuntime host(1, 4000, -1, segment_bytes);
  for (const Routine routine : test::all_routines) {
    if (Level3{.routine = routine}.updates_triangle()) continue;
    for (const ScalarType type : test::types_of(routine)) {
      if (type == ScalarType::s) continue;  // has tiles of one size
      expect_right(host, segment_bytes, type,
                   {.routine = routine,
                    .m = 2 * n,
                    .n = n,
                    .k = 2 * n,
                    .alpha = {0.75, -0.5},
                    .beta = {-1.5, 0.25},
                    .padding = 3});
    }
  }
}

TEST_F(Level3UnevenTiles, EveryVariantOfTriangles) {
  constexpr index_t n = 64;
  for (const Routine routine : test::all_routines) {
    if (!Level3{.routine = routine}.updates_triangle()) continue;
    for (const ScalarType type : test::types_of(routine)) {
      if (type == ScalarType::s) continue;
      const auto segment_bytes = n / segments * static_cast<index_t>(element_bytes(type));
      HostRuntime host(1, 4000, -1, static_cast<std::size_t>(segment_bytes));
      expect_right(
          host, segment_bytes, type,
          {.routine = routine, .m = n, .n = n, .k = 2 * n, .alpha = {0.75, -0.5}, .beta = {-1.5, 0.25}, .padding = 3});
    }
  }
}

// Element offsets beyond 2^31 in every operand: few rows of matrices with very large leading dimensions, in memory that is
// reserved but for the most part never touched.
TEST(Level3Offsets, ReachBeyond32Bits) {
  constexpr index_t m = 12, n = 40'000, k = 24, ld = 70'000;
  static_assert(ld * (n - 1) > index_t{1} << 31);
  constexpr std::size_t bytes = static_cast<std::size_t>(ld * n) * sizeof(float);
  const auto reserve = [&] {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<float*>(memory);
  };
  float* const B = reserve();
  float* const C = reserve();
  if (B == nullptr || C == nullptr)
    GTEST_SKIP() << "this machine does not reserve " << bytes << " bytes of address space";
  std::vector<float> A(m * k);
  for (std::size_t e = 0; e < A.size(); ++e) A[e] = static_cast<float>(e % 7) - 3;
  const auto b = [](index_t l, index_t j) { return static_cast<float>((l * 5 + j * 3) % 11) - 5; };
  for (index_t j = 0; j < n; ++j) {
    for (index_t l = 0; l < k; ++l) B[l + j * ld] = b(l, j);
  }
  HostDeviceSettings settings;
  settings.memory_bytes = 8 << 20;
  auto opened = test::open_host_devices(2, {settings}, test::cpu_blas());
  const auto runtime = make_runtime(std::move(opened.accelerators), settings.memory_bytes);
  Level3 call{.routine = Routine::gemm,
              .type = ScalarType::s,
              .m = m,
              .n = n,
              .k = k,
              .A = A.data(),
              .lda = m,
              .B = B,
              .ldb = ld,
              .C = C,
              .ldc = ld};
  run(*runtime, call, 512);
  // Small integers: every sum is exact.
  index_t wrong = 0;
  for (index_t j = 0; j < n; ++j) {
    for (index_t i = 0; i < m; ++i) {
      float expected = 0;
      for (index_t l = 0; l < k; ++l) expected += A[static_cast<std::size_t>(i + l * m)] * b(l, j);
      if (C[i + j * ld] != expected) ++wrong;
    }
    if (C[m + j * ld] != 0) ++wrong;
  }
  EXPECT_EQ(wrong, 0);
  munmap(B, bytes);
  munmap(C, bytes);
}

// Tiles fetched ahead for tasks that another device took: run() returns only when nobody reads the caller's memory any more.
TEST(Level3Lifetime, NoCopyOutlivesTheCall) {
  for (int round = 0; round < 10; ++round) {
    std::vector<HostDeviceSettings> settings(2);
    for (auto& s : settings) {
      s.memory_bytes = 64 * tile * tile * sizeof(double);
      s.peers = false;
    }
    settings[0].link_bytes_per_s = 2e6;  // its fetches lie in a queue while the other device does the work
    auto opened = test::open_host_devices(2, settings, test::cpu_blas());
    const auto runtime = make_runtime(std::move(opened.accelerators), settings[0].memory_bytes);
    constexpr index_t n = 6 * tile;
    constexpr index_t k = 2 * tile;  // all that a lane needs is asked for before anything is fetched ahead
    constexpr std::size_t bytes = n * k * sizeof(double);
    const auto allocate = [] {
      void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      return memory == MAP_FAILED ? nullptr : static_cast<double*>(memory);
    };
    double* const A = allocate();
    double* const B = allocate();
    ASSERT_TRUE(A != nullptr && B != nullptr);
    std::fill(A, A + n * k, 1.0);
    std::fill(B, B + n * k, 2.0);
    std::vector<double> C(n * n);
    run(*runtime, {.m = n, .n = n, .k = k, .A = A, .lda = n, .B = B, .ldb = k, .C = C.data(), .ldc = n}, tile);
    munmap(A, bytes);  // a late reader dies here
    munmap(B, bytes);
    EXPECT_EQ(C, std::vector<double>(n * n, 2.0 * k));
  }
}

// The operation with each of these numbers fails on one of two devices, and the CPU helps in every second call.
TEST(Level3FailureModel, ALossLeavesTheResultRight) {
  int survived = 0;
  for (const Routine routine :
       {Routine::symm, Routine::syrk, Routine::syr2k, Routine::gemmt, Routine::trmm, Routine::trsm}) {
    for (std::int64_t failing = 0; failing < 90; failing += 3) {
      HostRuntime host(2, 60, failing);
      Level3Fixture<double> fixture(
          {.routine = routine, .m = 5 * tile, .n = 4 * tile + 3, .k = 3 * tile, .alpha = 2, .beta = 0.5}, 5);
      const auto statistics = run(*host.runtime, fixture.problem(), tile, {.always = failing % 2 == 0});
      EXPECT_TRUE(fixture.check()) << "operation " << failing;
      if (statistics.restarts > 0) ++survived;
    }
  }
  EXPECT_GT(survived, 20);
}

}  // namespace level3_test
}  // namespace tessera::routines
