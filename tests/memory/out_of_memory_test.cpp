// Memory runs out at any moment of a call: the N-th allocation after a switch fails, for all N of the call. The result
// is right or, in Tessera's API, the call fails and C is unchanged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "calls/gemm_batch.hpp"
#include "calls/level3.hpp"
#include "offload/bridge.hpp"
#include "offload/face.hpp"
#include "tessera/lapack_batch.h"
#include "tessera/tessera.h"
#include "tests/level3_problem.hpp"

namespace failing_memory {

/// Allocations until one fails; below zero none fails.
std::atomic<std::int64_t> until_failure = -1;

bool fails_now() { return until_failure.load(std::memory_order_relaxed) >= 0 && until_failure.fetch_sub(1) == 0; }

void* allocated_or_null(std::size_t bytes) noexcept {
  return fails_now() ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
}
void* allocated_or_null(std::size_t bytes, std::align_val_t alignment) noexcept {
  const auto align = static_cast<std::size_t>(alignment);
  return fails_now() ? nullptr : std::aligned_alloc(align, (bytes + align - 1) / align * align);
}

template <class... Alignment>
void* allocated(std::size_t bytes, Alignment... alignment) {
  if (void* const memory = allocated_or_null(bytes, alignment...)) return memory;
  throw std::bad_alloc();
}

}  // namespace failing_memory

// Here operator new uses malloc. gcc misses that if it inlines only one of new and delete, and warns.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(std::size_t bytes) { return failing_memory::allocated(bytes); }
void* operator new[](std::size_t bytes) { return failing_memory::allocated(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return failing_memory::allocated(bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return failing_memory::allocated(bytes, alignment);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return failing_memory::allocated_or_null(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return failing_memory::allocated_or_null(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace tessera {
namespace out_of_memory_test {

using failing_memory::until_failure;
using test::Level3Case;
using Fixture = test::Level3Fixture<double>;

constexpr const char* settings =
    "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_TILE=16 TESSERA_CPU_WORKER=auto TESSERA_CALIBRATION=off";

/// Any allocation in it may be the one that fails. @return whether one failed
template <class Body>
bool with_failure(std::int64_t number, Body body) {
  until_failure = number;
  body();
  return until_failure.exchange(-1) < 0;
}

const std::vector<Level3Case>& cases() {
  static const std::vector<Level3Case> all = [] {
    Level3Case product;
    product.routine = Routine::gemm;
    product.m = 40;
    product.n = 36;
    product.k = 33;
    product.alpha = 0.5;
    product.beta = 0.5;  // old values of C must not be lost
    Level3Case solve = product;
    solve.routine = Routine::trsm;  // tiles that wait for others
    return std::vector{product, solve};
  }();
  return all;
}

class OutOfMemory : public ::testing::Test {
 protected:
  // A hang ends by a signal.
  void SetUp() override { alarm(300); }
  void TearDown() override { alarm(0); }
};

tessera_status call(tessera_context context, const Level3& p) {
  if (p.routine == Routine::trsm) {
    return tessera_dtrsm(context, TESSERA_COL_MAJOR, p.side == Side::left ? TESSERA_LEFT : TESSERA_RIGHT,
                         p.uplo == Uplo::upper ? TESSERA_UPPER : TESSERA_LOWER, TESSERA_NO_TRANS,
                         p.diag == Diag::unit ? TESSERA_UNIT : TESSERA_NON_UNIT, p.m, p.n, p.alpha.real(),
                         static_cast<const double*>(p.A), p.lda, static_cast<double*>(p.C), p.ldc);
  }
  return tessera_dgemm(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, p.m, p.n, p.k, p.alpha.real(),
                       static_cast<const double*>(p.A), p.lda, static_cast<const double*>(p.B), p.ldb, p.beta.real(),
                       static_cast<double*>(p.C), p.ldc);
}

/// @param fresh whether the context is made in the failing part, too
void every_allocation_fails_once(bool fresh) {
  for (const Level3Case& c : cases()) {
    tessera_context context = nullptr;
    if (!fresh) {
      ASSERT_EQ(tessera_create_with(&context, settings), TESSERA_SUCCESS);
    }
    int refused = 0;
    std::int64_t number = 0;
    for (bool failed = true; failed; ++number) {
      Fixture fixture(c, static_cast<unsigned>(number + 1));
      const std::vector<double> before(fixture.C().begin(), fixture.C().end());
      const Level3 problem = fixture.problem();
      tessera_status status = TESSERA_SUCCESS;
      failed = with_failure(number, [&] {
        if (fresh) status = tessera_create_with(&context, settings);
        if (status == TESSERA_SUCCESS) status = call(context, problem);
      });
      if (status == TESSERA_SUCCESS) {
        ASSERT_TRUE(fixture.check()) << number;
      } else {
        ++refused;
        const std::vector<double> after(fixture.C().begin(), fixture.C().end());
        ASSERT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(double)), 0) << number;
      }
      if (fresh) {
        ASSERT_EQ(tessera_destroy(context), TESSERA_SUCCESS);
        context = nullptr;
      }
    }
    EXPECT_GT(number, 200);  // the failures did occur
    EXPECT_GT(refused, 0);
    EXPECT_LT(refused, number / 2);
    if (!fresh) {
      ASSERT_EQ(tessera_destroy(context), TESSERA_SUCCESS);
    }
  }
}

TEST_F(OutOfMemory, AtAnyMomentOfACall) { every_allocation_fails_once(false); }
TEST_F(OutOfMemory, AtAnyMomentOfTheFirstCall) { every_allocation_fails_once(true); }

// The BLAS symbols cannot report a failure.
TEST_F(OutOfMemory, AtAnyMomentOfACallThroughASymbol) {
  static offload::Face face;
  for (const Level3Case& c : cases()) {
    Fixture warm(c, 1);
    tessera_private_run(warm.problem(), face);
    std::int64_t number = 0;
    for (bool failed = true; failed; ++number) {
      Fixture fixture(c, static_cast<unsigned>(number + 1));
      const Level3 problem = fixture.problem();
      failed = with_failure(number, [&] { tessera_private_run(problem, face); });
      ASSERT_TRUE(fixture.check()) << number;
    }
    EXPECT_GT(number, 200);
  }
}

/// Small products of one size, C = A B + C, and one that only scales.
class Products {
 public:
  Products() {
    for (std::size_t i = 0; i < A_.size(); ++i) A_[i] = static_cast<double>(i % 7), B_[i] = static_cast<double>(i % 5);
  }
  GemmBatch batch() {
    GemmBatchBuilder builder(ScalarType::d);
    for (index_t i = 0; i < count; ++i) {
      const index_t at = i * size * size;
      builder.add({.arguments = {.op_a = Op::no_trans,
                                 .op_b = Op::no_trans,
                                 .m = size,
                                 .n = size,
                                 .k = i == 7 ? 0 : size,
                                 .lda = size,
                                 .ldb = size,
                                 .ldc = size},
                   .beta = i % 2 == 0 ? 1 : 2,
                   .A = {.first = A_.data() + at},
                   .B = {.first = B_.data() + at},
                   .C = {.first = C_.data() + at},
                   .count = 1});
    }
    return builder.take();
  }
  tessera_status call(tessera_context context) {
    return tessera_dgemm_batch_strided(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, size, size, size,
                                       1, A_.data(), size, size * size, B_.data(), size, size * size, 1, C_.data(),
                                       size, size * size, count);
  }
  const std::vector<double>& C() const { return C_; }

 private:
  static constexpr index_t size = 6, count = 40;
  std::vector<double> A_ = std::vector<double>(count * size * size), B_ = A_;
  std::vector<double> C_ = std::vector<double>(count * size * size, 3);
};

TEST_F(OutOfMemory, AtAnyMomentOfABatch) {
  tessera_context context = nullptr;
  ASSERT_EQ(tessera_create_with(&context, settings), TESSERA_SUCCESS);
  Products expected;
  const std::vector<double> before = expected.C();
  ASSERT_EQ(expected.call(context), TESSERA_SUCCESS);
  int refused = 0;
  std::int64_t number = 0;
  for (bool failed = true; failed; ++number) {
    Products products;
    tessera_status status = TESSERA_SUCCESS;
    failed = with_failure(number, [&] { status = products.call(context); });
    refused += status == TESSERA_SUCCESS ? 0 : 1;
    ASSERT_EQ(products.C(), status == TESSERA_SUCCESS ? expected.C() : before) << number;
  }
  EXPECT_GT(number, 30);
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, number / 2);
  ASSERT_EQ(tessera_destroy(context), TESSERA_SUCCESS);
}

/// A batch of some small products and one that is worth a call of its own, tall and thin.
class MixedProducts {
 public:
  MixedProducts() {
    for (std::size_t i = 0; i < A_.size(); ++i) A_[i] = static_cast<double>(i % 5);
    begin_anew();
  }
  void begin_anew() {
    for (std::size_t i = 0; i < C_.size(); ++i) C_[i] = static_cast<double>(i % 3);
  }
  tessera_status call(tessera_context context) {
    const tessera_transpose op[] = {TESSERA_NO_TRANS, TESSERA_NO_TRANS};
    const std::int64_t m[] = {4, rows}, n[] = {4, 1}, k[] = {4, inner}, ldb[] = {4, inner}, size[] = {small, 1};
    const double alpha[] = {1, 1}, beta[] = {2, 3};
    const double* factors[small + 1];
    double* results[small + 1];
    for (std::size_t i = 0; i <= small; ++i) factors[i] = A_.data(), results[i] = C_.data() + 16 * i;
    return tessera_dgemm_batch(context, TESSERA_COL_MAJOR, op, op, m, n, k, alpha, factors, m, factors, ldb, beta,
                               results, m, 2, size);
  }
  const std::vector<double>& C() const { return C_; }

 private:
  static constexpr std::size_t small = 30;
  static constexpr std::int64_t rows = 1449, inner = 1450;
  static_assert(rows * inner * 8 > 16 << 20);
  std::vector<double> A_ = std::vector<double>(rows * inner);
  std::vector<double> C_ = std::vector<double>(16 * small + rows);
};

TEST_F(OutOfMemory, AtAnyMomentOfABatchWithALargeProduct) {
  tessera_context context = nullptr;
  ASSERT_EQ(tessera_create_with(&context,
                                "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_TILE=2048 "
                                "TESSERA_CALIBRATION=off"),
            TESSERA_SUCCESS);
  MixedProducts products;
  const std::vector<double> before = products.C();
  ASSERT_EQ(products.call(context), TESSERA_SUCCESS);
  const std::vector<double> expected = products.C();
  ASSERT_NE(expected, before);
  int refused = 0;
  std::int64_t number = 0;
  for (bool failed = true; failed; ++number) {
    products.begin_anew();
    tessera_status status = TESSERA_SUCCESS;
    failed = with_failure(number, [&] { status = products.call(context); });
    refused += status == TESSERA_SUCCESS ? 0 : 1;
    ASSERT_EQ(products.C(), status == TESSERA_SUCCESS ? expected : before) << number;
  }
  EXPECT_GT(number, 100);
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, number / 2);
  ASSERT_EQ(tessera_destroy(context), TESSERA_SUCCESS);
}

TEST_F(OutOfMemory, AtAnyMomentOfABatchThroughASymbol) {
  static offload::Face face;
  Products expected;
  GemmBatch batch = expected.batch();
  tessera_private_run_batch(batch, face, 0);
  std::int64_t number = 0;
  for (bool failed = true; failed; ++number) {
    Products products;
    batch = products.batch();
    failed = with_failure(number, [&] { tessera_private_run_batch(batch, face, 0); });
    ASSERT_EQ(products.C(), expected.C()) << number;
  }
  EXPECT_GT(number, 30);
}

/// Small systems, in place: a matrix that has been factored cannot be factored again. Products of factors with few
/// digits, so that the devices and the CPU compute the same bits.
class SmallSystems {
 public:
  SmallSystems() {
    const auto l = [](std::size_t i, std::size_t j) {
      return i == j ? 1 : i > j ? 0.5 * static_cast<double>((i + j) % 2) : 0;
    };
    const auto u = [](std::size_t i, std::size_t j) {
      return i == j ? 8 : i < j ? static_cast<double>((i + j) % 3) : 0;
    };
    for (std::size_t at = 0; at < A_.size(); ++at) {
      const std::size_t i = at % size, j = at / size % size;
      A_[at] = 0;
      for (std::size_t k = 0; k < size; ++k) A_[at] += l(i, k) * u(k, j);
    }
  }
  tessera_status call(tessera_context context) {
    return tessera_dgesv_batch_strided(context, size, 1, A_.data(), size, size * size, ipiv_.data(), size, B_.data(),
                                       size, size, info_.data(), count);
  }
  auto results() const { return std::tie(A_, B_, ipiv_, info_); }

 private:
  static constexpr std::size_t size = 6, count = 40;
  std::vector<double> A_ = std::vector<double>(count * size * size), B_ = std::vector<double>(count * size, 3);
  std::vector<int> ipiv_ = std::vector<int>(count * size, -1), info_ = std::vector<int>(count, -1);
};

TEST_F(OutOfMemory, AtAnyMomentOfABatchOfSystems) {
  for (const char* const where : {"TESSERA_OFFLOAD=always", "TESSERA_OFFLOAD=never"}) {
    tessera_context context = nullptr;
    ASSERT_EQ(
        tessera_create_with(&context, (std::string("TESSERA_DEVICES=host:2 TESSERA_CALIBRATION=off ") + where).c_str()),
        TESSERA_SUCCESS);
    SmallSystems expected;
    const SmallSystems before;
    ASSERT_EQ(expected.call(context), TESSERA_SUCCESS);
    int refused = 0;
    std::int64_t number = 0;
    for (bool failed = true; failed; ++number) {
      SmallSystems systems;
      tessera_status status = TESSERA_SUCCESS;
      failed = with_failure(number, [&] { status = systems.call(context); });
      refused += status == TESSERA_SUCCESS ? 0 : 1;
      ASSERT_EQ(systems.results(), status == TESSERA_SUCCESS ? expected.results() : before.results()) << number;
    }
    EXPECT_GT(number, 3);
    EXPECT_GT(refused, 0);
    ASSERT_EQ(tessera_destroy(context), TESSERA_SUCCESS);
  }
}

TEST_F(OutOfMemory, WhileSeveralThreadsCall) {
  static offload::Face face;
  const Level3Case& c = cases().front();
  Fixture warm(c, 1);
  tessera_private_run(warm.problem(), face);
  std::int64_t number = 0;
  for (bool failed = true; failed; number += 3) {
    std::vector<Fixture> fixtures;
    for (unsigned t = 0; t < 4; ++t) fixtures.emplace_back(c, t + 1);
    std::atomic<bool> begin = false;
    std::vector<std::thread> threads;
    for (Fixture& fixture : fixtures) {
      threads.emplace_back([&begin, problem = fixture.problem()] {
        begin.wait(false);
        tessera_private_run(problem, face);
      });
    }
    failed = with_failure(number, [&] {
      begin = true;
      begin.notify_all();
      for (std::thread& thread : threads) thread.join();
    });
    for (Fixture& fixture : fixtures) ASSERT_TRUE(fixture.check()) << number;
  }
  EXPECT_GT(number, 500);
}

}  // namespace out_of_memory_test
}  // namespace tessera

int main(int argc, char** argv) {
  // Settings of the symbols' context, which is made at their first call.
  setenv("TESSERA_DEVICES", "host:2", 1);
  setenv("TESSERA_OFFLOAD", "always", 1);
  setenv("TESSERA_TILE", "16", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
