// The block of a product (block/gemm_block.hpp), computed by host threads: every routine that updates a matrix, in all variants.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/block/gemm_block.hpp"
#include "tests/kernels/host_block_machine.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace {

using kernels::block::BlockProduct;
using kernels::block::GemmBlock;
using kernels::block::GemmMemory;
using kernels::block::GemmShape;
using test::Level3Case;
using test::Level3Fixture;

template <Scalar T>
using Real = decltype(std::abs(T{}));
template <Scalar T>
constexpr int parts = std::floating_point<T> ? 1 : 2;
/// Two warps beside each other.
template <Scalar T>
using Small = GemmShape<Real<T>, parts<T>, 16, 32, 1, 2, 2>;
/// Two by two, each with several tiles.
template <Scalar T>
using Large = GemmShape<Real<T>, parts<T>, 64, 32, 2, 2, 3>;

/// As the kernel does it, one block after the other.
template <class Shape>
void run_by_blocks(const Level3& call) {
  const auto product = kernels::block::product_of<typename Shape::R, Shape::parts>(call);
  for (index_t column = 0; column < call.n; column += Shape::columns) {
    for (index_t row = 0; row < call.m; row += Shape::rows) {
      const auto memory = std::make_unique<GemmMemory<Shape>>();
      test::run_block<Shape>([&]<class Machine>(const Machine& machine) {
        GemmBlock<Shape, Machine>(product, *memory, row, column, machine).run();
      });
    }
  }
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
        Level3Case c{.routine = GetParam(), .m = m, .n = 1 + (7 * m + turn) % 41, .k = k, .beta = 1};
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

// Which shape of blocks a product is computed by does not show in its bits, nor do its neighbours.
TEST(GemmBlockBits, DependOnNothingButTheOperands) {
  for (const ScalarType type : test::all_types) {
    dispatch(type, [&]<Scalar T>(T) {
      const Level3Fixture<T> problem({.routine = Routine::gemm, .m = 70, .n = 40, .k = 50, .beta = 1}, 1);
      Level3Fixture<T> small = problem, large = problem;
      run_by_blocks<Small<T>>(small.problem());
      run_by_blocks<Large<T>>(large.problem());
      EXPECT_EQ(std::memcmp(small.C().data(), large.C().data(), small.C().size() * sizeof(T)), 0);
    });
  }
}

}  // namespace
}  // namespace tessera
