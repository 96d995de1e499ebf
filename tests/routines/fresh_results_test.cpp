// Results in memory that nobody has touched: its pages are made while operands go up.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <vector>

#include "routines/dense_solvers.hpp"
#include "tests/routines/host_runtime.hpp"

namespace tessera::routines {
namespace fresh_results_test {

constexpr index_t order = 1200, depth = 16, tile = 400;
constexpr std::size_t result_bytes = order * order * sizeof(double);

class Fresh {
 public:
  explicit Fresh(std::size_t bytes) : bytes_(bytes) {
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~Fresh() { munmap(memory_, bytes_); }
  Fresh(const Fresh&) = delete;
  Fresh& operator=(const Fresh&) = delete;
  double* elements() const { return static_cast<double*>(memory_); }

 private:
  void* memory_;
  std::size_t bytes_;
};

bool can_make_pages() {
  const Fresh one(4096);
  return madvise(one.elements(), 4096, 23 /* MADV_POPULATE_WRITE */) == 0;
}

/// Devices so slow that threads have begun long before results come down.
std::vector<HostDeviceSettings> slow_devices(int count) {
  HostDeviceSettings slow;
  slow.delay_s = 0.02;
  slow.memory_bytes = std::size_t{64} << 20;
  return std::vector<HostDeviceSettings>(static_cast<std::size_t>(count), slow);
}

/// C = A B of ones, n x n, where beta is 0.
Level3 product(const std::vector<double>& ones, double* C, double beta = 0) {
  Level3 call{.routine = Routine::gemm, .type = ScalarType::d, .m = order, .n = order, .k = depth};
  call.A = ones.data(), call.B = ones.data(), call.C = C;
  call.lda = order, call.ldb = depth, call.ldc = order;
  call.beta = beta;
  return call;
}

TEST(FreshResults, HavePagesMadeAhead) {
  if (!can_make_pages()) GTEST_SKIP() << "the kernel makes no pages ahead";
  const test::HostRuntime host(slow_devices(2));
  const std::vector<double> ones(order * depth, 1);
  const Fresh C(result_bytes);
  const runtime::JobStatistics first = run(*host.runtime, product(ones, C.elements()), tile);
  EXPECT_GT(first.fresh_bytes, 0);
  EXPECT_LE(first.fresh_bytes, static_cast<std::int64_t>(result_bytes));
  for (index_t i = 0; i < order * order; ++i) ASSERT_EQ(C.elements()[i], depth);
  EXPECT_EQ(run(*host.runtime, product(ones, C.elements()), tile).fresh_bytes, 0) << "they are there";
}

TEST(FreshResults, WhatIsReadIsNotFresh) {
  const test::HostRuntime host(slow_devices(1));
  const std::vector<double> ones(order * depth, 1);
  const Fresh C(result_bytes);
  EXPECT_EQ(run(*host.runtime, product(ones, C.elements(), 1), tile).fresh_bytes, 0);
  for (index_t i = 0; i < order * order; ++i) ASSERT_EQ(C.elements()[i], depth);
}

TEST(FreshResults, OfATriangleNeverTouchTheOther) {
  if (!can_make_pages()) GTEST_SKIP() << "the kernel makes no pages ahead";
  const test::HostRuntime host(slow_devices(1));
  constexpr index_t n = 4096;  // a page holds an eighth of a column
  const std::vector<double> ones(n, 1);
  const Fresh C(n * n * sizeof(double));
  madvise(C.elements(), n * n * sizeof(double), MADV_NOHUGEPAGE);
  Level3 call{.routine = Routine::syrk, .type = ScalarType::d, .uplo = Uplo::lower, .m = n, .n = n, .k = 1};
  call.A = ones.data(), call.C = C.elements();
  call.lda = call.ldc = n;
  call.beta = 0;
  EXPECT_GT(run(*host.runtime, call, 1024).fresh_bytes, 0);
  for (index_t j = 0; j < n; j += 511) {
    unsigned char is_there = 1;
    if (j >= 512) {
      ASSERT_EQ(mincore(C.elements() + j * n, 4096, &is_there), 0);
      EXPECT_EQ(is_there & 1, 0) << "above the diagonal in column " << j;
    }
    for (index_t i = j; i < n; ++i) ASSERT_EQ(C.elements()[i + j * n], 1);
  }
}

TEST(FreshResults, OfProblemsThatOneDeviceSolvesWhole) {
  if (!can_make_pages()) GTEST_SKIP() << "the kernel makes no pages ahead";
  const test::HostRuntime host(slow_devices(1));
  constexpr index_t m = 200000, n = 6;
  std::vector<double> A(m * n), values(n), VT(n * n);
  for (index_t i = 0; i < m * n; ++i) A[static_cast<std::size_t>(i)] = static_cast<double>((i * i + 7 * i) % 23);
  const Fresh U(m * n * sizeof(double));
  LapackCall call{.routine = Routine::gesdd,
                  .type = ScalarType::d,
                  .vectors = true,
                  .u = VectorJob::thin,
                  .vt = VectorJob::thin,
                  .m = m,
                  .n = n};
  call.A = A.data(), call.lda = m;
  call.U = U.elements(), call.ldu = m;
  call.VT = VT.data(), call.ldvt = n;
  call.values = values.data();
  EXPECT_GT(solve_dense(*host.runtime, call).fresh_bytes, 0);
}

// LAPACK's callers give no more columns than there may be vectors.
TEST(FreshResults, WhatMayStayUnwrittenIsLeftAlone) {
  const test::HostRuntime host(slow_devices(1));
  constexpr index_t n = 1100;
  std::vector<double> A(n * n), values(n);
  for (index_t i = 0; i < n; ++i) A[static_cast<std::size_t>(i * (n + 1))] = static_cast<double>(i);
  const Fresh U(n * n * sizeof(double));
  index_t found = 0;
  LapackCall call{
      .routine = Routine::heevr, .type = ScalarType::d, .vectors = true, .range = EigenRange::values, .n = n};
  call.vl = 1.5, call.vu = 3.5;
  call.A = A.data(), call.lda = n;
  call.U = U.elements(), call.ldu = n;
  call.values = values.data(), call.found = &found;
  EXPECT_EQ(solve_dense(*host.runtime, call).fresh_bytes, 0);
  EXPECT_EQ(found, 2);
}

}  // namespace fresh_results_test
}  // namespace tessera::routines
