// Batches on every backend: all types and forms, sizes from 1 on, matrices that are shared, poison beside all of them;
// and so many products that every lane is used again and again.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "calls/gemm_batch.hpp"
#include "core/config.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/batches/gemm_chunks.hpp"
#include "runtime/runtime.hpp"
#include "tests/device/backends.hpp"
#include "tests/lapack_systems.hpp"

namespace tessera::runtime {
namespace batch_conformance {

template <Scalar T>
class Problem {
 public:
  explicit Problem(unsigned seed) : random_(seed) {}

  void add(Op op_a, Op op_b, index_t m, index_t n, index_t k, AnyScalar beta, bool shares_a) {
    const bool plain_a = op_a == Op::no_trans, plain_b = op_b == Op::no_trans;
    Item item{.form = {op_a, op_b, AnyScalar(0.75, -0.5), beta}, .m = m, .n = n, .k = k};
    item.lda = (plain_a ? m : k) + 1, item.ldb = (plain_b ? k : n) + 2, item.ldc = m + 3;
    const bool same = shares_a && !items_.empty() && items_.back().lda == item.lda && items_.back().form.op_a == op_a &&
                      items_.back().m == m && items_.back().k == k;
    item.a = same ? items_.back().a : matrix(plain_a ? m : k, plain_a ? k : m, item.lda, true);
    item.b = matrix(plain_b ? k : n, plain_b ? n : k, item.ldb, true);
    item.c = matrix(m, n, item.ldc, beta != AnyScalar(0));
    items_.push_back(item);
  }

  void check(Runtime& runtime) {
    std::vector<T> expected = memory_;
    const GemmBatch batch = batch_in(memory_), oracle = batch_in(expected);
    for (const Product& p : oracle.problems) {
      const ProductForm& form = oracle.form_of(p);
      kernels::reference_gemm<T, kernels::Wide<T>>(form.op_a, form.op_b, p.m, p.n, p.k, scalar_cast<T>(form.alpha),
                                                   static_cast<const T*>(p.A), p.lda, static_cast<const T*>(p.B), p.ldb,
                                                   scalar_cast<T>(form.beta), static_cast<T*>(p.C), p.ldc);
    }
    const JobStatistics job =
        runtime.run_batch(*runtime::packable(batch), [](index_t, index_t) { ADD_FAILURE() << "left to the CPU"; });
    EXPECT_EQ(job.restarts, 0);
    std::vector<char> is_result(memory_.size(), 0);
    for (const Item& item : items_) {
      const double bound =
          8.0 * static_cast<double>(item.k + 4) * std::numeric_limits<decltype(std::abs(T{}))>::epsilon();
      for (index_t j = 0; j < item.n; ++j) {
        for (index_t i = 0; i < item.m; ++i) {
          const std::size_t at = item.c + static_cast<std::size_t>(i + j * item.ldc);
          is_result[at] = 1;
          ASSERT_LE(std::abs(memory_[at] - expected[at]), bound) << item.m << ' ' << item.n << ' ' << item.k;
        }
      }
    }
    for (std::size_t at = 0; at < memory_.size(); ++at) {
      const bool same = is_result[at] != 0 || std::memcmp(&memory_[at], &expected[at], sizeof(T)) == 0;
      ASSERT_TRUE(same) << "beside the results";
    }
  }

 private:
  struct Item {
    ProductForm form;
    index_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
    std::size_t a = 0, b = 0, c = 0;
  };

  std::size_t matrix(index_t rows, index_t cols, index_t ld, bool is_read) {
    const std::size_t at = memory_.size();
    const double nan = std::nan("7");
    memory_.resize(at + static_cast<std::size_t>(ld * cols), scalar_cast<T>(AnyScalar(nan, nan)));
    std::uniform_real_distribution<double> value(-0.5, 0.5);
    for (index_t j = 0; j < cols && is_read; ++j) {
      for (index_t i = 0; i < rows; ++i)
        memory_[at + static_cast<std::size_t>(i + j * ld)] = scalar_cast<T>(AnyScalar(value(random_), value(random_)));
    }
    return at;
  }

  GemmBatch batch_in(std::vector<T>& memory) const {
    GemmBatchBuilder builder(scalar_type_of<T>());
    for (const Item& item : items_) {
      builder.add({.arguments = {.op_a = item.form.op_a,
                                 .op_b = item.form.op_b,
                                 .m = item.m,
                                 .n = item.n,
                                 .k = item.k,
                                 .lda = item.lda,
                                 .ldb = item.ldb,
                                 .ldc = item.ldc},
                   .alpha = item.form.alpha,
                   .beta = item.form.beta,
                   .A = {.first = memory.data() + item.a},
                   .B = {.first = memory.data() + item.b},
                   .C = {.first = memory.data() + item.c},
                   .count = 1});
    }
    return builder.take();
  }

  std::mt19937 random_;
  std::vector<T> memory_;
  std::vector<Item> items_;
};

class BatchConformance : public ::testing::TestWithParam<test::BackendParam> {
 protected:
  static std::unique_ptr<Runtime> runtime_over(test::OpenedDevices& opened) {
    return std::make_unique<Runtime>(std::move(opened.accelerators), Config{}, &kernels::reference_level3);
  }
};

TEST_P(BatchConformance, ProductsOfAllFormsAndSizes) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const ScalarType type : scalar_types) {
    dispatch(type, [&]<Scalar T>(T) {
      std::mt19937 random(static_cast<unsigned>(type));
      Problem<T> problem(1);
      for (const Op op_a : {Op::no_trans, Op::trans, Op::conj_trans}) {
        for (const Op op_b : {Op::no_trans, Op::trans, Op::conj_trans}) {
          for (const AnyScalar beta : {AnyScalar(0), AnyScalar(1), AnyScalar(-1.5, 0.5)}) {
            for (int i = 0; i < 12; ++i) {
              const auto size = [&](unsigned most) { return static_cast<index_t>(1 + random() % most); };
              const unsigned most = i == 0 ? 150 : 40;
              problem.add(op_a, op_b, size(most), size(most), size(most), beta, false);
            }
            for (int i = 0; i < 3; ++i) problem.add(op_a, op_b, 17, 5 + i, 9, beta, true);
          }
        }
      }
      problem.check(*runtime);
    });
  }
}

TEST_P(BatchConformance, ManyProducts) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  Problem<double> problem(2);
  for (int i = 0; i < 8000; ++i)
    problem.add(Op::no_trans, Op::no_trans, 1 + i % 24, 1 + i % 17, 1 + i % 11, i % 2, false);
  problem.check(*runtime);
  problem.check(*runtime);  // on top of the first results, in the same lanes
}

// Of LAPACK's routines, beside the reference; sizes around those where kernels change.
TEST_P(BatchConformance, FactorizationsSolvesAndInverses) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const Routine routine : test::host_lapack_routines) {
    for (const ScalarType type : scalar_types) {
      if (HasFailure()) return;
      SCOPED_TRACE(letter(type) + std::string(name_of(routine)));
      dispatch(type, [&]<Scalar T>(T) {
        test::Systems<T> systems(routine, 1), expected(routine, 1);
        for (test::Systems<T>* const each : {&systems, &expected}) {
          each->add_some(300, 20);
          for (const index_t n : {31, 32, 33, 64, 65, 100, 150}) {
            each->add(n, n, 1);
            each->add(n + 7, n, 9);
            each->add(n, n + 1, 40);
          }
          each->add_some(300, 40);
        }
        expected.compute();
        const LapackProblems batch = systems.batch();
        const JobStatistics job =
            runtime->run_batch(*packable(batch), [](index_t, index_t) { ADD_FAILURE() << "left to the CPU"; });
        EXPECT_EQ(job.restarts, 0);
        systems.expect_same(expected);
      });
    }
  }
}

TEST_P(BatchConformance, ManySmallSystems) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const auto runtime = runtime_over(opened);
  for (const Routine routine : {Routine::gesv, Routine::posv, Routine::getri}) {
    test::Systems<double> systems(routine, 2), expected(routine, 2);
    for (test::Systems<double>* const each : {&systems, &expected}) each->add_some(10000, 16);
    expected.compute();
    const LapackProblems batch = systems.batch();
    runtime->run_batch(*packable(batch), [](index_t, index_t) { ADD_FAILURE() << "left to the CPU"; });
    systems.expect_same(expected);
  }
}

TESSERA_INSTANTIATE_BACKENDS(BatchConformance);

}  // namespace batch_conformance
}  // namespace tessera::runtime
