// The block of a product (block/gemm_block.hpp), computed by host threads: every routine that updates a matrix, in all
// variants.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "kernels/block/gemm_block.hpp"
#include "kernels/block/product_batch.hpp"
#include "kernels/block/triangular_batch.hpp"
#include "tests/kernels/host_batch_machine.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace gemm_block_test {

using kernels::block::BlockProduct;
using kernels::block::GemmShape;
using test::Level3Case;
using test::Level3Fixture;

/// Two warps beside each other.
template <Scalar T>
using Small = test::BatchBlock<T>;
/// Two by two warps, each with several tiles. In double precision C comes through the stages.
template <Scalar T>
using Large = GemmShape<kernels::block::PartOf<T>, kernels::block::parts_of<T>, 64, sizeof(T) < 16 ? 64 : 32, 2, 2, 3>;

/// Computes one block after the other.
template <class Shape>
void run_by_blocks(const BlockProduct<typename Shape::E>& product, kernels::block::Operands operands, index_t rows,
                   index_t columns) {
  for (index_t column = 0; column < columns; column += Shape::columns) {
    for (index_t row = 0; row < rows; row += Shape::rows) test::run_gemm_block<Shape>(product, operands, row, column);
  }
}

/// Problems of one variant as a batch, with arguments in arrays.
template <class E>
class BatchOf {
 public:
  explicit BatchOf(const std::vector<Level3>& calls) : info_(calls.size(), 1) {
    for (const Level3& call : calls) {
      for (const auto& [numbers, number] : {std::pair{&m_, call.m},
                                            {&n_, call.n},
                                            {&k_, call.k},
                                            {&lda_, call.lda},
                                            {&ldb_, call.ldb},
                                            {&ldc_, call.ldc}})
        numbers->push_back(static_cast<int>(number));
      A_.push_back(static_cast<const E*>(call.A));
      B_.push_back(static_cast<const E*>(call.B));
      C_.push_back(static_cast<E*>(call.C));
    }
    batch_.common = calls.front();
    batch_.count = static_cast<index_t>(calls.size());
    batch_.m.of_each = m_.data();
    batch_.n.of_each = n_.data();
    batch_.k.of_each = k_.data();
    batch_.lda.of_each = lda_.data();
    batch_.ldb.of_each = ldb_.data();
    batch_.ldc.of_each = ldc_.data();
    batch_.A.of_each = A_.data();
    batch_.B.of_each = B_.data();
    batch_.C.of_each = C_.data();
    batch_.info = info_.data();
  }
  BatchOf(const BatchOf&) = delete;
  BatchOf& operator=(const BatchOf&) = delete;

  const kernels::Level3Batch& batch() const { return batch_; }
  const std::vector<int>& info() const { return info_; }

 private:
  std::vector<int> m_, n_, k_, lda_, ldb_, ldc_, info_;
  std::vector<const E*> A_, B_;
  std::vector<E*> C_;
  kernels::Level3Batch batch_;
};

/// Computes each problem by the blocks of a grid that upper bounds have cut.
template <class Shape>
void run_by_blocks(const kernels::Level3Batch& given, index_t most_rows, index_t most_columns) {
  const auto batch = kernels::block::product_batch<typename Shape::R, Shape::parts>(given);
  for (const index_t i : test::good_problems(batch, given.info, given.n.is_wide)) {
    run_by_blocks<Shape>(kernels::block::product_of(batch.form, batch.problem(i)),
                         kernels::block::operands_of(batch.form), most_rows, most_columns);
  }
}

template <class Shape>
void run_by_blocks(const Level3& call) {
  run_by_blocks<Shape>(BatchOf<typename Shape::E>({call}).batch(), call.m, call.n);
}

class GemmBlockTest : public ::testing::TestWithParam<Routine> {};

constexpr Routine updates[] = {Routine::gemm, Routine::symm,  Routine::hemm,  Routine::syrk,
                               Routine::herk, Routine::syr2k, Routine::her2k, Routine::gemmt};
INSTANTIATE_TEST_SUITE_P(Routines, GemmBlockTest, ::testing::ValuesIn(updates),
                         [](const auto& routine) { return name_of(routine.param); });

TEST_P(GemmBlockTest, AllVariantsAndTypes) {
  for (const ScalarType type : test::types_of(GetParam())) {
    Level3Case base{.routine = GetParam(), .m = 19, .n = 37, .k = 18};
    base.alpha = {0.5, -1.25};
    base.beta = {-1.5, 0.75};
    int turn = 0;
    test::for_each_variant(type, base, [&](Level3Case c) {
      if (++turn % 3 == 0) c.beta = 0;
      if (turn % 4 == 0) c.padding = 0;
      dispatch(type, [&]<Scalar T>(T) {
        Level3Fixture<T> fixture(c, static_cast<unsigned>(turn));
        run_by_blocks<Small<T>>(fixture.problem());
        EXPECT_TRUE(fixture.check());
      });
    });
  }
}

TEST_P(GemmBlockTest, AllSizes) {
  int turn = 0;
  for (const index_t m : {1, 15, 16, 17, 64, 65}) {
    for (const index_t k : {1, 16, 33, 70}) {
      for (const ScalarType type : test::types_of(GetParam())) {
        if (++turn % 3 != 0) continue;
        Level3Case c{.routine = GetParam(), .m = m, .n = 1 + (7 * m + 5 * turn) % 100, .k = k, .beta = 1};
        c.side = turn % 2 == 0 ? Side::left : Side::right;
        c.uplo = turn % 4 < 2 ? Uplo::lower : Uplo::upper;
        c.op_a = turn % 5 < 2 ? Op::trans : Op::no_trans;
        dispatch(type, [&]<Scalar T>(T) {
          Level3Fixture<T> fixture(c, static_cast<unsigned>(turn));
          run_by_blocks<Large<T>>(fixture.problem());
          EXPECT_TRUE(fixture.check());
        });
      }
    }
  }
}

// alpha == 0 and k == 0: A and B hold NaN. beta == 1: nothing is written at all.
TEST_P(GemmBlockTest, OnlyScales) {
  for (const ScalarType type : test::types_of(GetParam())) {
    for (const bool without_k : {false, true}) {
      if (without_k && !Level3{.routine = GetParam()}.has_k()) continue;
      for (const AnyScalar& beta : {AnyScalar(0), AnyScalar(1), AnyScalar(-0.5)}) {
        Level3Case c{.routine = GetParam(), .m = 18, .n = 18, .k = without_k ? 0 : 5, .beta = beta};
        c.alpha = without_k ? AnyScalar(std::numeric_limits<double>::quiet_NaN()) : AnyScalar(0);
        dispatch(type, [&]<Scalar T>(T) {
          Level3Fixture<T> fixture(c, 1);
          run_by_blocks<Small<T>>(fixture.problem());
          EXPECT_TRUE(fixture.check());
        });
      }
    }
  }
}

// The bits of a result depend neither on the shape of the blocks nor on neighbours.
TEST(GemmBlockBits, DependOnNothingButTheOperands) {
  for (const ScalarType type : test::all_types) {
    dispatch(type, [&]<Scalar T>(T) {
      const Level3Fixture<T> problem({.routine = Routine::gemm, .m = 70, .n = 130, .k = 50, .beta = 1}, 1);
      Level3Fixture<T> small = problem, large = problem;
      run_by_blocks<Small<T>>(small.problem());
      run_by_blocks<Large<T>>(large.problem());
      EXPECT_EQ(std::memcmp(small.C().data(), large.C().data(), small.C().size() * sizeof(T)), 0);
    });
  }
}

template <Scalar T>
std::vector<Level3> problems_of(std::vector<Level3Fixture<T>>& fixtures) {
  std::vector<Level3> calls;
  for (Level3Fixture<T>& fixture : fixtures) calls.push_back(fixture.problem());
  return calls;
}

// Sizes with zeros among them, one much larger than the others, and one problem with a leading dimension that is too
// small.
TEST_P(GemmBlockTest, BatchesOfVariableSize) {
  for (const ScalarType type : test::types_of(GetParam())) {
    dispatch(type, [&]<Scalar T>(T) {
      constexpr std::size_t count = 12, outlier = 4, bad = 7;
      std::mt19937 random(1);
      std::uniform_int_distribution<index_t> size(0, 9);
      std::vector<Level3Fixture<T>> fixtures;
      Level3Case c{.routine = GetParam(), .side = Side::right, .uplo = Uplo::upper, .op_a = Op::trans, .beta = -1};
      for (std::size_t i = 0; i < count; ++i) {
        c.m = i == outlier ? 41 : size(random);
        c.n = i == outlier ? 35 : size(random);
        c.k = i == outlier ? 50 : size(random);
        fixtures.emplace_back(c, static_cast<unsigned>(i));
      }
      std::vector<Level3> calls = problems_of(fixtures);
      calls[bad].ldc = 0;
      const BatchOf<kernels::block::ElementOf<T>> batch(calls);
      const std::vector<T> before = fixtures[bad].C();
      run_by_blocks<Small<T>>(batch.batch(), 48, 48);
      const int position = position_of(GetParam(), Parameter::ldc);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(batch.info()[i], i == bad ? -position : 0);
        if (i == bad) continue;
        EXPECT_TRUE(fixtures[i].check()) << "problem " << i;
      }
      EXPECT_EQ(std::memcmp(before.data(), fixtures[bad].C().data(), before.size() * sizeof(T)), 0);
    });
  }
}

// As in the reference BLAS: the first one in the order of the Fortran interface.
TEST_P(GemmBlockTest, NamesTheFirstBadArgument) {
  const Level3 call{.routine = GetParam(), .type = ScalarType::z, .m = 5, .n = 5, .k = 5};
  const auto form = kernels::block::product_form<double, 2>(call);
  const auto positions = kernels::block::argument_positions(GetParam());
  const kernels::block::ProductProblem<kernels::block::Element<double, 2>> good{
      .m = 5, .n = 5, .k = 5, .lda = 5, .ldb = 5, .ldc = 5};
  EXPECT_EQ(bad_argument(form, positions, good), 0);
  using Problem = decltype(good);
  using Member = index_t std::remove_const_t<Problem>::*;
  using P = std::remove_const_t<Problem>;
  const std::pair<Member, Parameter> members[] = {{&P::ldc, Parameter::ldc}, {&P::ldb, Parameter::ldb},
                                                  {&P::lda, Parameter::lda}, {&P::k, Parameter::k},
                                                  {&P::n, Parameter::n},     {&P::m, Parameter::m}};
  P problem = good;
  for (const auto& [member, parameter] : members) {
    const int position = position_of(GetParam(), parameter);
    if (position == 0) continue;
    problem.*member = -1;  // all later arguments are bad, too
    EXPECT_EQ(bad_argument(form, positions, problem), position);
  }
}

class TriangularBatchTest : public ::testing::TestWithParam<Routine> {};
INSTANTIATE_TEST_SUITE_P(Routines, TriangularBatchTest, ::testing::Values(Routine::trsm, Routine::trmm),
                         [](const auto& routine) { return name_of(routine.param); });

// Sizes within a leaf of 64 rows, of several leaves, of exactly several leaves, and of zero.
TEST_P(TriangularBatchTest, ProblemsOfAnySize) {
  int turn = 0;
  for (const ScalarType type : test::all_types) {
    test::for_each_variant(type, {.routine = GetParam(), .alpha = -0.75}, [&](Level3Case c) {
      if (++turn % 3 != 0) return;
      dispatch(type, [&]<Scalar T>(T) {
        std::vector<Level3Fixture<T>> fixtures;
        for (const index_t order : {150, 0, 1, 64, 65, 100}) {
          c.m = c.side == Side::left ? order : 3;
          c.n = c.side == Side::left ? 3 : order;
          fixtures.emplace_back(c, static_cast<unsigned>(order));
        }
        const BatchOf<kernels::block::ElementOf<T>> batch(problems_of(fixtures));
        test::run_triangles_by_strips<T>(batch.batch());
        for (const int info : batch.info()) EXPECT_EQ(info, 0);
        for (const auto& fixture : fixtures) EXPECT_TRUE(fixture.check());
      });
    });
  }
}

TEST_P(TriangularBatchTest, NamesTheFirstBadArgument) {
  for (const Side side : test::all_sides) {
    const Level3 call{.routine = GetParam(), .side = side, .m = 5, .n = 7};
    const auto form = kernels::block::triangular_form<double, 1>(call);
    const auto positions = kernels::block::argument_positions(GetParam());
    kernels::block::TriangularProblem<kernels::block::Element<double, 1>> problem{.m = 5, .n = 7, .lda = 7, .ldb = 5};
    EXPECT_EQ(bad_argument(form, positions, problem), 0);
    problem.ldb = 4;
    EXPECT_EQ(bad_argument(form, positions, problem), position_of(GetParam(), Parameter::ldb));
    problem.lda = side == Side::left ? 4 : 6;
    EXPECT_EQ(bad_argument(form, positions, problem), position_of(GetParam(), Parameter::lda));
    problem.n = -1;
    EXPECT_EQ(bad_argument(form, positions, problem), position_of(GetParam(), Parameter::n));
    problem.m = -1;
    EXPECT_EQ(bad_argument(form, positions, problem), position_of(GetParam(), Parameter::m));
  }
}

}  // namespace gemm_block_test
}  // namespace tessera
