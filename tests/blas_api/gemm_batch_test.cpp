// Batches of gemm through the C API, in every type, form and layout, and in groups of any size. Some tests share
// matrices, or check memory that must not be read or written. Others have devices that fail or are small, several
// callers, child processes, or look at the report of a batch.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/addressable.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/reference/reference.hpp"
#include "tessera/tessera.hpp"
#include "tests/blas_api/gemm_batch_problem.hpp"

namespace tessera {
namespace gemm_batch_test {

using testing::AllOf;
using testing::HasSubstr;
using Shape = test::ProductShape;
template <Scalar T>
using Batch = test::GemmBatchProblem<T>;

constexpr const char* on_one = "TESSERA_OFFLOAD=always TESSERA_DEVICES=host:1 ";
constexpr const char* on_two = "TESSERA_OFFLOAD=always TESSERA_DEVICES=host:2 ";
constexpr const char* on_cpu = "TESSERA_OFFLOAD=never ";

template <class T>
class GemmBatch : public testing::Test {};
using BatchScalars = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(GemmBatch, BatchScalars);

TYPED_TEST(GemmBatch, AgreesWithTheOracleInEveryCombination) {
  using T = TypeParam;
  const T other = scalar_cast<T>(AnyScalar(1.25, -0.5));
  for (const char* const settings : {on_one, on_cpu}) {
    const Context context(settings);
    for (const tessera_layout layout : {TESSERA_COL_MAJOR, TESSERA_ROW_MAJOR}) {
      Batch<T> batch(layout);
      for (const tessera_transpose ta : {TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS}) {
        for (const tessera_transpose tb : {TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS}) {
          for (const T alpha : {T(1), T(0), other}) {
            for (const T beta : {T(0), T(1), other}) batch.add_group({5, 7, 3}, ta, tb, alpha, beta, 2);
          }
        }
      }
      batch.check(context);
    }
  }
}

TYPED_TEST(GemmBatch, TakesGroupsOfAnySizes) {
  for (const char* const settings : {on_two, "TESSERA_OFFLOAD=always TESSERA_DEVICES=host:3 ", on_cpu}) {
    const Context context(settings);
    for (unsigned seed = 1; seed <= 3; ++seed) {
      Batch<TypeParam> batch(seed % 2 == 0 ? TESSERA_ROW_MAJOR : TESSERA_COL_MAJOR, seed);
      batch.add_random_groups(150, 30, 6);
      batch.check(context);
    }
  }
}

TYPED_TEST(GemmBatch, StridedMatricesMayBeShared) {
  using T = TypeParam;
  constexpr index_t m = 6, n = 5, k = 4, count = 40, ldc = m + 1;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> value(-0.5, 0.5);
  const auto fill = [&](std::size_t elements) {
    std::vector<T> matrix(elements);
    for (T& element : matrix) element = scalar_cast<T>(AnyScalar(value(random), value(random)));
    return matrix;
  };
  const std::vector<T> A = fill(m * k), B = fill(count * k * n);
  for (const char* const settings : {on_two, on_cpu}) {
    const Context context(settings);
    // The matrices C are interleaved: the columns of one lie between those of another.
    std::vector<T> C(ldc * n * count, T(7)), expected = C;
    gemm_batch_strided(context, TESSERA_COL_MAJOR, TESSERA_TRANS, TESSERA_NO_TRANS, m, n, k, T(2), A.data(), k, 0,
                       B.data(), k, k * n, T(0), C.data(), ldc * count, ldc, count);
    for (index_t i = 0; i < count; ++i) {
      kernels::reference_gemm<T, kernels::Wide<T>>(Op::trans, Op::no_trans, m, n, k, T(2), A.data(), k,
                                                   B.data() + i * k * n, k, T(0), expected.data() + i * ldc,
                                                   ldc * count);
    }
    for (std::size_t i = 0; i < C.size(); ++i) ASSERT_LE(std::abs(C[i] - expected[i]), 1e-5) << i;
  }
}

nlohmann::json stats_of(const Context& context) { return nlohmann::json::parse(context.last_job_json()); }

TEST(GemmBatches, ManyProductsAreSharedByTheDevices) {
  const Context context("TESSERA_OFFLOAD=always TESSERA_DEVICES=host:2 TESSERA_HOST_DEVICE=delay=200us");
  Batch<double> batch(TESSERA_COL_MAJOR);
  for (int g = 0; g < 20000; ++g) {
    const index_t size = 1 + g % 13;
    batch.add_group({size, size + 1, 14 - size}, TESSERA_NO_TRANS, g % 2 == 0 ? TESSERA_TRANS : TESSERA_NO_TRANS, 1,
                    g % 3 == 0 ? 0 : 1, 1);
  }
  batch.check(context);
  const nlohmann::json stats = stats_of(context);
  EXPECT_EQ(stats["routine"], "dgemm_batch");
  index_t tasks = 0;
  for (const auto& device : stats["devices"]) {
    EXPECT_EQ(device["kernel_s"].get<double>() > 0, device["tasks"].get<index_t>() > 0) << device;
    tasks += device["tasks"].get<index_t>();
  }
  EXPECT_EQ(tasks, batch.products());
  EXPECT_EQ(stats["devices"].size(), 2u) << "not the CPU";
}

TEST(GemmBatches, ALargeProductIsACallOfItsOwn) {
  const Context context("TESSERA_OFFLOAD=always TESSERA_DEVICES=host:1 TESSERA_VERBOSE=1");
  Batch<double> batch(TESSERA_COL_MAJOR);
  batch.add_group({9, 9, 9}, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 0, 20);
  batch.add_group({512, 512, 256}, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 0.5, 1);
  batch.add_group({7, 8, 9}, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 0, 20);
  batch.add_group({40, 30, 0}, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 0.5, 1);
  testing::internal::CaptureStderr();
  batch.check(context);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      told, AllOf(HasSubstr("dgemm_batch of 40 products, 1 form, mean of m*n*k 9^3 on host:0 (TESSERA_OFFLOAD=always)"),
                  HasSubstr("dgemm NN m=512 n=512 k=256 on host:0"),
                  HasSubstr("dgemm NN m=40 n=30 k=0 on the CPU BLAS (C is only scaled)")));
}

TEST(GemmBatches, FollowTheRulesOfTheirRoutine) {
  const auto told_of = [](const std::string& settings, index_t size, index_t count) {
    const Context context("TESSERA_VERBOSE=1 TESSERA_DEVICES=host:1 " + settings);
    Batch<double> batch(TESSERA_COL_MAJOR);
    batch.add_group({size, size, size}, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 0, count);
    testing::internal::CaptureStderr();
    batch.run(context);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told_of("TESSERA_OFFLOAD=always,dgemm=never", 8, 10),
              HasSubstr("on the CPU BLAS (TESSERA_OFFLOAD=never)"));
  // The sum counts: 27 cubes of 10 are a cube of 30.
  EXPECT_THAT(told_of("TESSERA_OFFLOAD=30", 10, 27), HasSubstr("on host:0 (from the size"));
  EXPECT_THAT(told_of("TESSERA_OFFLOAD=30", 10, 26), HasSubstr("on the CPU BLAS (below the size"));
  EXPECT_THAT(told_of("TESSERA_OFFLOAD=auto", 10, 26), HasSubstr("on the CPU BLAS (too small"));
}

TEST(GemmBatches, AnUnknownCpuIsMeasuredOnSamplesOfTheBatch) {
  // Devices that would take a minute: the CPU wins as soon as it is known, and not before.
  const Context context("TESSERA_VERBOSE=1 TESSERA_DEVICES=host:1 TESSERA_HOST_DEVICE=speed=1MFLOP/s,compute=off");
  const auto told_of = [&] {
    Batch<double> batch(TESSERA_COL_MAJOR);
    batch.add_group({24, 24, 24}, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 1, 6000);
    testing::internal::CaptureStderr();
    batch.check(context);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told_of(), HasSubstr("on the CPU BLAS (sooner on the CPU: estimated"));
}

TEST(GemmBatches, AreWeighedWhenASampleHasBeenMeasured) {
  // Devices without modelled rates take what packing takes.
  const Context context("TESSERA_VERBOSE=1 TESSERA_DEVICES=host:1 TESSERA_HOST_DEVICE=compute=off");
  Batch<std::complex<double>> batch(TESSERA_COL_MAJOR);
  batch.add_group({64, 64, 64}, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 0, 1000, true);
  testing::internal::CaptureStderr();
  batch.run(context);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("on the CPU BLAS (to measure the CPU)"));
  EXPECT_THAT(told, testing::ContainsRegex("sooner on (devices|the CPU): estimated"));
}

TEST(GemmBatches, TheProgramSaysHowManyThreadsTheCpuHas) {
  const auto blas = kernels::CpuBlas::open("");
  void* const library = dlopen(blas->path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto parallel = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_parallel"));
  if (set == nullptr || parallel == nullptr || parallel() == 0) {
    EXPECT_EQ(blas->threads().own, 1);
    GTEST_SKIP() << "no OpenBLAS with threads: " << blas->path();
  }
  const int before = blas->threads().own;
  for (const int threads : {1, 2}) {
    set(threads);
    EXPECT_EQ(blas->threads().own, threads);
  }
  set(before);
  EXPECT_FALSE(blas->threads().in_team);
}

TEST(GemmBatches, DevicesThatFailAreMadeGood) {
  Batch<double> batch(TESSERA_COL_MAJOR);
  batch.add_random_groups(400, 40, 8);
  for (const std::string kind : {"", "up:", "down:", "kernel:"}) {
    for (const int number : {0, 1, 3}) {
      for (const int devices : {1, 2}) {
        SCOPED_TRACE(kind + std::to_string(number) + ", devices: " + std::to_string(devices));
        const Context context("TESSERA_OFFLOAD=always TESSERA_DEVICES=host:" + std::to_string(devices) +
                              " TESSERA_HOST_DEVICE=delay=100us,fail=" + kind + std::to_string(number) +
                              ";delay=100us");
        Batch<double> copy = batch;
        copy.check(context);
        if (devices == 1) {
          EXPECT_THAT(context.devices(), testing::StartsWith("cpu ")) << "it has not failed";
        }
        copy = batch;
        copy.check(context);
      }
    }
  }
}

TEST(GemmBatches, ARefusalCostsADeviceOneBatch) {
  const Context context("TESSERA_OFFLOAD=always TESSERA_DEVICES=host:1 TESSERA_HOST_DEVICE=refuse=4");
  Batch<float> batch(TESSERA_ROW_MAJOR), again = batch;
  batch.add_random_groups(100, 40, 8);
  again = batch;
  batch.check(context);
  again.check(context);
  EXPECT_EQ(stats_of(context)["devices"][0]["device"], "host:0");
  EXPECT_GT(stats_of(context)["devices"][0]["tasks"], 0);
}

TEST(GemmBatches, SmallMemoryTakesSmallChunks) {
  // 8 KiB hold what is small, 4 KiB next to nothing; what fits nowhere is the CPU's.
  for (const char* const memory : {"64KiB", "8KiB", "4KiB"}) {
    SCOPED_TRACE(memory);
    const Context context(std::string(on_two) + "TESSERA_DEVICE_MEMORY=" + memory);
    Batch<double> batch(TESSERA_COL_MAJOR);
    batch.add_random_groups(200, 30, 6);
    batch.check(context);
  }
}

TEST(GemmBatches, SeveralThreadsCallAtOnce) {
  for (const char* const settings : {on_two, on_cpu}) {
    const Context context(settings);
    std::vector<std::thread> callers;
    for (unsigned t = 0; t < 3; ++t) {
      callers.emplace_back([&, t] {
        for (unsigned i = 0; i < 3; ++i) {
          Batch<double> batch(TESSERA_COL_MAJOR, 10 * t + i);
          batch.add_random_groups(80, 40, 5);
          batch.check(context);
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
}

TEST(GemmBatches, AChildComputesOnTheCpu) {
  const Context context(on_two);
  Batch<double> batch(TESSERA_COL_MAJOR);
  batch.add_random_groups(100, 40, 5);
  batch.check(context);
  const pid_t child = fork();
  if (child == 0) {
    Batch<double> own(TESSERA_COL_MAJOR, 5);
    own.add_random_groups(100, 40, 5);
    own.check(context);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(GemmBatches, WithoutEffectTouchNothing) {
  tessera_context ctx = nullptr;
  ASSERT_EQ(tessera_create_with(&ctx, on_one), TESSERA_SUCCESS);
  EXPECT_EQ(tessera_dgemm_batch(ctx, TESSERA_COL_MAJOR, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr),
            TESSERA_SUCCESS);
  EXPECT_EQ(tessera_dgemm_batch_strided(ctx, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 2, 2, 2, 1, nullptr,
                                        2, 4, nullptr, 2, 4, 0, nullptr, 2, 4, 0),
            TESSERA_SUCCESS);
  EXPECT_EQ(tessera_dgemm_batch_strided(ctx, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 0, 2, 2, 1, nullptr,
                                        2, 4, nullptr, 2, 4, 0, nullptr, 2, 4, std::int64_t{1} << 62),
            TESSERA_SUCCESS);
  double C[4] = {1, 2, 3, 4};
  // C is only scaled: A and B may be null.
  EXPECT_EQ(tessera_dgemm_batch_strided(ctx, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 1, 1, 0, nullptr,
                                        1, 0, nullptr, 1, 0, 2, C, 1, 1, 4),
            TESSERA_SUCCESS);
  EXPECT_EQ(C[0] + C[1] + C[2] + C[3], 20);
  EXPECT_EQ(tessera_destroy(ctx), TESSERA_SUCCESS);
}

/// Two good groups, of which a test spoils the second.
struct Arguments2 {
  tessera_layout layout = TESSERA_COL_MAJOR;
  std::vector<tessera_transpose> ta{TESSERA_NO_TRANS, TESSERA_NO_TRANS}, tb = ta;
  std::vector<std::int64_t> m{2, 2}, n{3, 3}, k{4, 4}, lda{4, 4}, ldb{4, 4}, ldc{4, 4}, size{1, 1};
  std::vector<double> alpha{1, 1}, beta{0, 0}, values = std::vector<double>(64, 5);
  std::vector<const double*> A{values.data(), values.data()}, B = A;
  std::vector<double> first = std::vector<double>(16, 5), second = first;
  std::vector<double*> C{first.data(), second.data()};
  std::int64_t count = 2;

  tessera_status run(tessera_context ctx) {
    return tessera_dgemm_batch(ctx, layout, ta.data(), tb.data(), m.data(), n.data(), k.data(), alpha.data(), A.data(),
                               lda.data(), B.data(), ldb.data(), beta.data(), C.data(), ldc.data(), count, size.data());
  }
};

TEST(GemmBatches, ABadArgumentOfAnyGroupIsNamedBeforeAnythingIsDone) {
  tessera_context ctx = nullptr;
  ASSERT_EQ(tessera_create_with(&ctx, on_cpu), TESSERA_SUCCESS);
  const auto expect = [&](int position, const char* text, auto&& spoil) {
    Arguments2 arguments;
    spoil(arguments);
    EXPECT_EQ(arguments.run(ctx), TESSERA_INVALID_ARGUMENT) << text;
    EXPECT_EQ(tessera_last_error_position(), position) << text;
    EXPECT_THAT(tessera_last_error(), HasSubstr(text));
    EXPECT_EQ(arguments.first, std::vector<double>(16, 5)) << "the good group has been computed";
  };
  expect(2, "layout", [](auto& a) { a.layout = static_cast<tessera_layout>(7); });
  expect(3, "transa is none", [](auto& a) { a.ta[1] = static_cast<tessera_transpose>(7); });
  expect(4, "transb is none", [](auto& a) { a.tb[1] = static_cast<tessera_transpose>(7); });
  expect(5, "m is negative (group 1", [](auto& a) { a.m[1] = -1; });
  expect(6, "n is negative", [](auto& a) { a.n[1] = -1; });
  expect(7, "k is negative", [](auto& a) { a.k[1] = -1; });
  expect(9, "A is null", [](auto& a) { a.A[1] = nullptr; });
  expect(10, "lda is smaller", [](auto& a) { a.lda[1] = 1; });
  expect(11, "B is null", [](auto& a) { a.B[1] = nullptr; });
  expect(12, "ldb is smaller", [](auto& a) { a.ldb[1] = 3; });
  expect(14, "C is null", [](auto& a) { a.C[1] = nullptr; });
  expect(15, "ldc is smaller", [](auto& a) { a.ldc[1] = 1; });
  expect(16, "group_count is negative", [](auto& a) { a.count = -1; });
  expect(17, "group_size is negative", [](auto& a) { a.size[1] = -1; });
  // Sizes that are multiplied or summed.
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(), quarter = std::int64_t{1} << 62;
  expect(16, "arrays of so many", [](auto& a) { a.count = most; });
  expect(17, "arrays of so many are larger than any memory (group 1", [](auto& a) { a.size[1] = most; });
  expect(17, "arrays of so many are larger than any memory (group 0", [](auto& a) { a.size = {quarter, quarter}; });
  expect(17, "arrays of so many are larger than any memory (group 1", [](auto& a) {
    a.m = {0, 0};  // even where there is nothing to do
    a.size = {most_problems, most_problems};
  });
  expect(6, "a matrix is larger than any memory (group 1", [](auto& a) { a.ldb[1] = most; });
  // Positions are the caller's, in either layout.
  expect(10, "lda is smaller", [](auto& a) { a.layout = TESSERA_ROW_MAJOR, a.lda[1] = 3; });
  EXPECT_EQ(tessera_dgemm_batch(nullptr, TESSERA_COL_MAJOR, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr),
            TESSERA_INVALID_ARGUMENT);

  const double one = 1;
  double C = 5;
  const auto strided = [&](std::int64_t m, std::int64_t lda, std::int64_t a, std::int64_t ldb, std::int64_t b,
                           double* c, std::int64_t ldc, std::int64_t s, std::int64_t count) {
    EXPECT_EQ(tessera_dgemm_batch_strided(ctx, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, m, 1, 1, 1, &one,
                                          lda, a, &one, ldb, b, 0, c, ldc, s, count),
              TESSERA_INVALID_ARGUMENT);
    return tessera_last_error_position();
  };
  EXPECT_EQ(strided(-1, 1, 0, 1, 0, &C, 1, 0, 1), 5);
  EXPECT_EQ(strided(1, 0, -1, 1, 0, &C, 1, 0, 1), 10);
  EXPECT_EQ(strided(1, 1, -1, 0, 0, &C, 1, 0, 1), 11);
  EXPECT_EQ(strided(1, 1, 0, 0, 0, &C, 1, 0, 1), 13);
  EXPECT_EQ(strided(1, 1, 0, 1, -1, &C, 0, 0, 1), 14);
  EXPECT_EQ(strided(1, 1, 0, 1, 0, nullptr, 1, 0, 1), 16);
  EXPECT_EQ(strided(1, 1, 0, 1, 0, &C, 0, 0, 1), 17);
  EXPECT_EQ(strided(1, 1, 0, 1, 0, &C, 1, -1, 1), 18);
  EXPECT_EQ(strided(1, 1, 0, 1, 0, &C, 1, 0, -1), 19);
  EXPECT_EQ(strided(1, 1, 0, 1, 0, &C, 1, 0, most), 19);
  EXPECT_EQ(strided(1, 1, 1, 1, 1, &C, 1, 1, most_problems + 1), 19);
  EXPECT_EQ(strided(1, 1, most / 8, 1, 0, &C, 1, 0, 3), 11);
  EXPECT_EQ(strided(1, 1, 0, 1, most, &C, 1, 0, 2), 14);
  EXPECT_EQ(strided(1, 1, 0, 1, 0, &C, 1, most, 2), 18);
  EXPECT_EQ(C, 5);
  // Arguments that are not used may have any value: the stride of one matrix, and the leading dimension of one column.
  EXPECT_EQ(tessera_dgemm_batch_strided(ctx, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 1, 1, 1, 2, &one,
                                        most, most, &one, most, most, 0, &C, most, most, 1),
            TESSERA_SUCCESS);
  EXPECT_EQ(C, 2);
  EXPECT_EQ(tessera_destroy(ctx), TESSERA_SUCCESS);
}

}  // namespace gemm_batch_test
}  // namespace tessera
