// Batches with so many problems that a grid has several layers, some of them singular or with NaN; and matrices with
// elements at distances beyond 32 bits. Each problem's result must equal its result in a small batch, bit by bit. The
// conformance suites check small batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/device/backends.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/device_api/lapack_runner.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace large_batch_test {

using test::ImplementationKind;
using test::LibraryImplementation;

class DeviceLargeBatches : public ::testing::TestWithParam<ImplementationKind> {
 protected:
  void SetUp() override {
    std::string missing;
    implementation_ = test::open_library_implementation(GetParam(), missing);
    if (implementation_ != nullptr) return;
    if (test::cuda_required()) FAIL() << missing;
    GTEST_SKIP() << missing;
  }

  /// All of them if launches depend on them.
  static std::vector<index_t> counts() {
    if (GetParam().name != ImplementationKind::cuda) return {65536};
    return {65535, 65536, 70001, 524281};
  }

  template <class Element>
  Element* place(const std::vector<Element>& values) {
    auto* const memory = implementation_->allocate(values.size() * sizeof(Element));
    implementation_->write(memory, reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(Element));
    return reinterpret_cast<Element*>(memory);
  }
  template <class Element>
  std::vector<Element> taken(const Element* from, std::size_t count) {
    std::vector<Element> values(count);
    implementation_->read(reinterpret_cast<std::byte*>(values.data()), reinterpret_cast<const std::byte*>(from),
                          count * sizeof(Element));
    return values;
  }

  std::unique_ptr<LibraryImplementation> implementation_;
};

// --- many problems ---

constexpr index_t order = 3, elements = order * order, kinds = 7;

/// Positive definite, except for three: two have a zero on the diagonal and nothing beside it, and one has a NaN.
std::vector<double> matrix_of_kind(index_t kind) {
  std::mt19937_64 random(static_cast<unsigned>(kind + 1));
  std::vector<double> A = test::random_matrix<double>(order, order, order, random);
  for (index_t i = 0; i < order; ++i) {
    for (index_t j = 0; j < i; ++j)
      A[static_cast<std::size_t>(i + j * order)] = A[static_cast<std::size_t>(j + i * order)];
    A[static_cast<std::size_t>(i + i * order)] = 4;
  }
  const auto clear = [&](index_t line) {
    for (index_t i = 0; i < order; ++i)
      A[static_cast<std::size_t>(i + line * order)] = A[static_cast<std::size_t>(line + i * order)] = 0;
  };
  if (kind == 2) clear(0);
  if (kind == 4) clear(2);
  if (kind == 5) A[4] = std::numeric_limits<double>::quiet_NaN();
  return A;
}

struct Solved {
  std::vector<double> A, B;
  std::vector<int> ipiv, info;
};

template <class Element>
std::vector<Element> repeated(const std::vector<Element>& some, index_t of_one, index_t count) {
  std::vector<Element> all;
  all.reserve(static_cast<std::size_t>(of_one * count));
  for (index_t i = 0; i < count; ++i) {
    const auto begin = some.begin() + i % kinds * of_one;
    all.insert(all.end(), begin, begin + of_one);
  }
  return all;
}

constexpr Routine factorizations_and_solves[] = {Routine::potrf, Routine::posv, Routine::getrf, Routine::getrf_nopiv,
                                                 Routine::gesv};

TEST_P(DeviceLargeBatches, EveryProblemIsWhatItIsInASmallOne) {
  const auto solve = [&](Routine routine, index_t count) {
    std::vector<double> A, B;
    for (index_t i = 0; i < count; ++i) {
      const std::vector<double> one = matrix_of_kind(i % kinds);
      A.insert(A.end(), one.begin(), one.end());
      for (index_t j = 0; j < order; ++j) B.push_back(static_cast<double>(j + 1));
    }
    double* const at = place(A);
    double* const right = place(B);
    int* const ipiv = place(std::vector<int>(static_cast<std::size_t>(count * order), -1));
    int* const info = place(std::vector<int>(static_cast<std::size_t>(count), -1));
    kernels::LapackBatch batch;
    batch.routine = routine;
    batch.type = ScalarType::d;
    batch.count = count;
    batch.max_m = batch.max_n = batch.m.of_all = batch.n.of_all = batch.lda.of_all = batch.ldb.of_all = order;
    batch.max_nrhs = batch.nrhs.of_all = 1;
    batch.A = {.first = at, .distance = elements};
    if (solves(routine)) batch.B = {.first = right, .distance = order};
    if (routine == Routine::getrf || routine == Routine::gesv) batch.ipiv = {.first = ipiv, .distance = order};
    batch.info = info;
    implementation_->run_lapack_batch(batch);
    return Solved{taken(at, A.size()), taken(right, B.size()), taken(ipiv, static_cast<std::size_t>(count * order)),
                  taken(info, static_cast<std::size_t>(count))};
  };
  for (const Routine routine : factorizations_and_solves) {
    const Solved few = solve(routine, kinds);
    EXPECT_EQ(few.info[0], 0);
    EXPECT_GT(few.info[2], 0);
    EXPECT_GT(few.info[4], 0);
    // Cholesky reports a NaN, and LU has it among the factors.
    EXPECT_EQ(few.info[5], is_hermitian(routine) ? 2 : 0) << name_of(routine);
    EXPECT_TRUE(is_hermitian(routine) || std::isnan(few.A[5 * elements + 8])) << name_of(routine);
    for (const index_t count : counts()) {
      const Solved many = solve(routine, count);
      EXPECT_EQ(many.info, repeated(few.info, 1, count)) << name_of(routine) << ", " << count;
      EXPECT_EQ(many.ipiv, repeated(few.ipiv, order, count)) << name_of(routine) << ", " << count;
      EXPECT_TRUE(test::same_bits(many.A, repeated(few.A, elements, count))) << name_of(routine) << ", " << count;
      EXPECT_TRUE(test::same_bits(many.B, repeated(few.B, order, count))) << name_of(routine) << ", " << count;
    }
  }
}

TEST_P(DeviceLargeBatches, EveryProductIsWhatItIsInASmallOne) {
  const auto multiply = [&](Routine routine, index_t count) {
    std::vector<double> A, C;
    for (index_t i = 0; i < count; ++i) {
      const std::vector<double> one = matrix_of_kind(i % kinds), other = matrix_of_kind(i % kinds == 3 ? 1 : 3);
      A.insert(A.end(), one.begin(), one.end());
      C.insert(C.end(), other.begin(), other.end());
    }
    double* const at = place(A);
    double* const right = place(A);
    double* const to = place(C);
    kernels::Level3Batch batch;
    batch.common = {
        .routine = routine, .type = ScalarType::d, .m = order, .n = order, .k = order, .alpha = 2, .beta = 1};
    if (batch.common.is_triangular()) batch.common.beta = 0;
    batch.count = count;
    batch.m.of_all = batch.n.of_all = batch.k.of_all = batch.lda.of_all = batch.ldb.of_all = batch.ldc.of_all = order;
    batch.A = {.first = at, .distance = elements};
    if (!batch.common.is_triangular()) batch.B = {.first = right, .distance = elements};
    batch.C = {.first = to, .distance = elements};
    implementation_->run_batch(batch);
    return taken(to, C.size());
  };
  for (const Routine routine : {Routine::gemm, Routine::trsm, Routine::trmm}) {
    const std::vector<double> few = multiply(routine, kinds);
    for (const index_t count : counts())
      EXPECT_TRUE(test::same_bits(multiply(routine, count), repeated(few, elements, count)))
          << name_of(routine) << ", " << count;
  }
}

// --- leading dimensions ---

constexpr index_t far = index_t{1} << 26;

class DeviceFarColumns : public DeviceLargeBatches {
 protected:
  static constexpr index_t n = 40;  // so that some elements lie beyond 2^31

  /// Two matrices beside each other, with n rows each, in memory for the whole distance.
  float* place_far(const std::vector<float>& both, index_t ld) {
    std::byte* const memory = implementation_->allocate(static_cast<std::size_t>((n - 1) * ld + 2 * n) * sizeof(float));
    for (index_t j = 0; j < n; ++j)
      implementation_->write(memory + j * ld * static_cast<index_t>(sizeof(float)),
                             reinterpret_cast<const std::byte*>(both.data() + 2 * n * j), 2 * n * sizeof(float));
    return reinterpret_cast<float*>(memory);
  }
  std::vector<float> taken_from(const float* memory, index_t ld) {
    std::vector<float> both(2 * n * n);
    for (index_t j = 0; j < n; ++j)
      implementation_->read(reinterpret_cast<std::byte*>(both.data() + 2 * n * j),
                            reinterpret_cast<const std::byte*>(memory + j * ld), 2 * n * sizeof(float));
    return both;
  }
  /// Two matrices with large diagonals.
  static std::vector<float> two_matrices(unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<float> both = test::random_matrix<float>(2 * n, n, 2 * n, random);
    for (index_t i = 0; i < n; ++i)
      both[static_cast<std::size_t>(i + 2 * n * i)] = both[static_cast<std::size_t>(n + i + 2 * n * i)] = 50;
    return both;
  }
};

TEST_P(DeviceFarColumns, FactorsAreThoseOfNearOnes) {
  for (const Routine routine : {Routine::potrf, Routine::getrf}) {
    const auto factor = [&](index_t ld) {
      float* const at = place_far(two_matrices(1), ld);
      int* const ipiv = place(std::vector<int>(2 * n));
      int* const info = place(std::vector<int>(2, -1));
      kernels::LapackBatch batch;
      batch.routine = routine;
      batch.type = ScalarType::s;
      batch.count = 2;
      batch.max_m = batch.max_n = batch.m.of_all = batch.n.of_all = n;
      batch.lda.of_all = ld;
      batch.A = {.first = at, .distance = n};
      if (routine == Routine::getrf) batch.ipiv = {.first = ipiv, .distance = n};
      batch.info = info;
      implementation_->run_lapack_batch(batch);
      EXPECT_EQ(taken(info, 2), (std::vector<int>{0, 0}));
      return taken_from(at, ld);
    };
    EXPECT_TRUE(test::same_bits(factor(far), factor(128))) << name_of(routine);
  }
}

TEST_P(DeviceFarColumns, ProductsAndSolvesAreThoseOfNearOnes) {
  for (const Routine routine : {Routine::gemm, Routine::trsm, Routine::trmm}) {
    const auto compute = [&](index_t lda, index_t ldc) {
      float* const A = place_far(two_matrices(1), lda);
      float* const B = place_far(two_matrices(2), 128);
      float* const C = place_far(two_matrices(3), ldc);
      kernels::Level3Batch batch;
      batch.common = {.routine = routine, .type = ScalarType::s, .m = n, .n = n, .k = n, .alpha = 2, .beta = 1};
      if (batch.common.is_triangular()) batch.common.beta = 0;
      batch.count = 2;
      batch.m.of_all = batch.n.of_all = batch.k.of_all = n;
      batch.lda.of_all = lda;
      batch.ldb.of_all = 128;
      batch.ldc.of_all = ldc;
      batch.A = {.first = A, .distance = n};
      if (!batch.common.is_triangular()) batch.B = {.first = B, .distance = n};
      batch.C = {.first = C, .distance = n};
      implementation_->run_batch(batch);
      return taken_from(C, ldc);
    };
    const std::vector<float> near = compute(128, 128);
    EXPECT_TRUE(test::same_bits(compute(far, 128), near)) << name_of(routine) << ", A";
    EXPECT_TRUE(test::same_bits(compute(128, far), near)) << name_of(routine) << ", C";
  }
}

std::string name_of_kind(const ::testing::TestParamInfo<ImplementationKind>& info) { return info.param.text(); }
INSTANTIATE_TEST_SUITE_P(On, DeviceLargeBatches, ::testing::ValuesIn(test::library_implementations()), name_of_kind);
// Untouched pages of the host take no memory.
INSTANTIATE_TEST_SUITE_P(On, DeviceFarColumns,
                         ::testing::Values(ImplementationKind{ImplementationKind::reference},
                                           ImplementationKind{ImplementationKind::cuda}),
                         name_of_kind);

}  // namespace large_batch_test
}  // namespace tessera
