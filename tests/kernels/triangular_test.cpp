// The plain C++ parts of triangular solves and in-place products: the division of a triangle, and the work of a block's
// threads. The latter runs on a Machine made of host threads (host_block_machine.hpp).
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/plan/triangular_recursion.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/kernels/host_block_machine.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace triangular_test {

using kernels::plan::run_in_parts;
using test::Level3Case;
using test::Level3Fixture;
using test::run_by_strips;

template <Scalar T>
void check_strips(const Level3Case& c) {
  Level3Fixture<T> narrow(c, 1);
  run_by_strips<T, 16>(narrow.problem());
  EXPECT_TRUE(narrow.check());
  Level3Fixture<T> wide(c, 1);
  run_by_strips<T, 32>(wide.problem());
  EXPECT_TRUE(wide.check());
}

constexpr Routine triangular_routines[] = {Routine::trsm, Routine::trmm};

Level3Case triangular_case(Routine routine, Side side, index_t order, index_t columns) {
  Level3Case c{.routine = routine, .side = side};
  c.m = side == Side::left ? order : columns;
  c.n = side == Side::left ? columns : order;
  return c;
}

class TriangularStrip : public ::testing::TestWithParam<Routine> {};
INSTANTIATE_TEST_SUITE_P(Routines, TriangularStrip, ::testing::ValuesIn(triangular_routines),
                         [](const auto& routine) { return name_of(routine.param); });

#if defined(__SANITIZE_THREAD__)
// the sanitizer watches every access of a block's threads: all of these tests would take eight minutes
constexpr bool is_watched = true;
#else
constexpr bool is_watched = false;
#endif

TEST_P(TriangularStrip, AllVariants) {
  for (const Side side : test::all_sides) {
    const Level3Case base = triangular_case(GetParam(), side, is_watched ? 19 : 37, 3);
    test::for_each_variant(ScalarType::z, base, [&](Level3Case c) {
      if (c.side != side) return;
      c.alpha = {0.5, -1.25};
      check_strips<std::complex<double>>(c);
    });
  }
}

TEST_P(TriangularStrip, AllTypesAndSizes) {
  for (const Side side : test::all_sides) {
    for (const index_t order : {1, 15, 16, 17, 33, 64}) {
      if (is_watched && order != 17) continue;
      Level3Case c = triangular_case(GetParam(), side, order, order == 33 ? 35 : 2);
      c.uplo = order % 2 == 0 ? Uplo::upper : Uplo::lower;
      c.op_a = order % 3 == 0 ? Op::conj_trans : Op::no_trans;
      c.diag = order == 17 ? Diag::unit : Diag::non_unit;
      for (const ScalarType type : test::all_types) {
        dispatch(type, [&]<Scalar T>(T) { check_strips<T>(c); });
      }
    }
  }
}

// Two blocks of 16 rows, so that blocks with small pivots are updated and update others.
TEST(TrsmStrip, WhateverTheElements) {
  using test::Triangle;
  for (const Triangle triangle : {Triangle::ones, Triangle::graded, Triangle::kahan, Triangle::subnormal}) {
    for (const ScalarType type : test::all_types) {
      for (const Uplo uplo : test::all_uplos) {
        Level3Case c = triangular_case(Routine::trsm, uplo == Uplo::lower ? Side::left : Side::right, 29, 2);
        c.uplo = uplo;
        c.op_a = uplo == Uplo::lower ? Op::no_trans : Op::conj_trans;
        c.triangle = triangle;
        dispatch(type, [&]<Scalar T>(T) {
          Level3Fixture<T> fixture(c, 1);
          run_by_strips<T, 16>(fixture.problem());
          EXPECT_TRUE(fixture.check());
        });
      }
    }
  }
}

/// The second element is -(l / p) 2^1000, and l / p has 14 digits left.
void check_scaled_element(void (*solve)(const Level3&)) {
  constexpr double l = 0x1.3c0ca428c59fbp-1000, p = 0x1.1999999999999p+60;
  const std::vector<double> A = {1, l, 0, p};
  std::vector<double> B = {0x1p+1000, 0};
  solve({.routine = Routine::trsm, .m = 2, .n = 1, .A = A.data(), .lda = 2, .C = B.data(), .ldc = 2});
  EXPECT_EQ(B[0], 0x1p+1000);
  EXPECT_NEAR(B[1] / (-(l * 0x1p+1000) / p), 1, 4 * std::numeric_limits<double>::epsilon());
}

TEST(TrsmStrip, DividesWhereAScaledElementWouldLoseDigits) {
  check_scaled_element(run_by_strips<double, 16>);
  check_scaled_element(run_by_strips<double, 32>);
}

// Links of 64 rows, the last one short, pass on their blocks.
template <int columns>
struct ChainOf {
  static constexpr int strip = columns;
};
template <class Strip>
class TrsmChain : public ::testing::Test {
 protected:
  static void check(const Level3Case& c, ScalarType type) {
    dispatch(type, [&]<Scalar T>(T) {
      Level3Fixture<T> fixture(c, 1);
      test::run_by_chain<T, Strip::strip>(fixture.problem());
      EXPECT_TRUE(fixture.check());
    });
  }
};
using ChainStrips = ::testing::Types<ChainOf<1>, ChainOf<8>>;
TYPED_TEST_SUITE(TrsmChain, ChainStrips);

TYPED_TEST(TrsmChain, AllVariantsTypesAndElements) {
  for (const Side side : test::all_sides) {
    for (const ScalarType type : test::all_types) {
      test::for_each_variant(type, triangular_case(Routine::trsm, side, 150, 2), [&](Level3Case c) {
        if (c.side != side) return;
        c.alpha = test::factors(type).back();
        c.triangle = c.diag == Diag::unit ? test::Triangle::dominant : test::Triangle::subnormal;
        this->check(c, type);
      });
    }
  }
}

TYPED_TEST(TrsmChain, AllSizesAndHardTriangles) {
  int turn = 0;
  for (const index_t order : {1, 31, 32, 33, 64, 65, 79, 128, 193}) {
    for (const test::Triangle triangle : test::harder_triangles) {
      Level3Case c = triangular_case(Routine::trsm, Side::left, order, 1 + turn % 9);
      c.uplo = turn % 2 == 0 ? Uplo::lower : Uplo::upper;
      c.op_a = turn % 3 == 0 ? Op::trans : Op::no_trans;
      c.triangle = triangle;
      this->check(c, test::all_types[static_cast<std::size_t>(turn++) % 4]);
    }
  }
}

TYPED_TEST(TrsmChain, DividesWhereAScaledElementWouldLoseDigits) {
  check_scaled_element(test::run_by_chain<double, TypeParam::strip>);
}

TYPED_TEST(TrsmChain, SurvivesQuotientsThatAreTooLarge) {
  const std::vector<double> A = {1, 1, 0, 0x1p-900};
  std::vector<double> B = {0x1p+900, 0x1p+900};
  test::run_by_chain<double, TypeParam::strip>(
      {.routine = Routine::trsm, .m = 2, .n = 1, .A = A.data(), .lda = 2, .C = B.data(), .ldc = 2});
  EXPECT_EQ(B[0], 0x1p+900);
  EXPECT_EQ(B[1], 0);
}

// Inversion of the triangle and multiplication give a small residual only if the triangle is well conditioned.
TEST(TrsmResidual, TellsSubstitutionFromInversion) {
  const auto passes = [](test::Triangle triangle) {
    constexpr index_t order = 70;
    Level3Case c = triangular_case(Routine::trsm, Side::left, order, 5);
    c.triangle = triangle;
    Level3Fixture<float> fixture(c, 1);
    const Level3 solve = fixture.problem();
    std::vector<float> inverse(order * order);
    for (std::size_t i = 0; i < order; ++i) inverse[i * (order + 1)] = 1;
    Level3 invert = solve;
    invert.n = invert.ldc = order;
    invert.C = inverse.data();
    kernels::reference_level3(invert);
    const std::vector<float> B = fixture.C();
    kernels::reference_level3({.routine = Routine::gemm,
                               .type = ScalarType::s,
                               .m = order,
                               .n = 5,
                               .k = order,
                               .A = inverse.data(),
                               .lda = order,
                               .B = B.data(),
                               .ldb = solve.ldc,
                               .C = solve.C,
                               .ldc = solve.ldc});
    return static_cast<bool>(fixture.check());
  };
  EXPECT_TRUE(passes(test::Triangle::dominant));
  for (const test::Triangle triangle : test::harder_triangles)
    EXPECT_FALSE(passes(triangle)) << static_cast<int>(triangle);
}

// The second element is (b - l x) / p. b / p is too large for the type, but the element is zero.
TEST(TrsmStrip, SurvivesQuotientsThatAreTooLarge) {
  const std::vector<double> A = {1, 1, 0, 0x1p-900};
  std::vector<double> B = {0x1p+900, 0x1p+900};
  run_by_strips<double, 16>(
      {.routine = Routine::trsm, .m = 2, .n = 1, .A = A.data(), .lda = 2, .C = B.data(), .ldc = 2});
  EXPECT_EQ(B[0], 0x1p+900);
  EXPECT_EQ(B[1], 0);
}

// Elements beside the triangle enter no product: an Inf of X reaches only the elements that depend on it.
TEST(TrmmStrip, KeepsAnInfinityWhereItBelongs) {
  constexpr index_t order = 20, at = 9;
  const std::vector<double> A(order * order, 1.0);
  std::vector<double> B(order, 1.0);
  B[at] = std::numeric_limits<double>::infinity();
  run_by_strips<double, 16>({.routine = Routine::trmm,
                             .m = order,
                             .n = 1,
                             .A = A.data(),
                             .lda = order,
                             .B = B.data(),
                             .ldb = order,
                             .C = B.data(),
                             .ldc = order});
  for (index_t i = 0; i < order; ++i) {
    const double expected = i < at ? static_cast<double>(i + 1) : std::numeric_limits<double>::infinity();
    EXPECT_EQ(B[static_cast<std::size_t>(i)], expected) << i;
  }
}

void check_parts(const Level3Case& c, ScalarType type) {
  dispatch(type, [&]<Scalar T>(T) {
    Level3Fixture<T> fixture(c, 1);
    const index_t order = c.side == Side::left ? c.m : c.n;
    index_t leaves = 0;
    run_in_parts(fixture.problem(), 4, [&](const Level3& part) {
      if (part.routine == c.routine) {
        ++leaves;
        EXPECT_LE(c.side == Side::left ? part.m : part.n, 4);
      }
      kernels::reference_level3(part);
    });
    EXPECT_EQ(leaves, (order + 3) / 4);
    EXPECT_TRUE(fixture.check());
  });
}

TEST_P(TriangularStrip, PartsGiveTheWhole) {
  for (const Side side : test::all_sides) {
    for (const index_t order : {1, 4, 5, 8, 9, 23, 40}) {
      for (const ScalarType type : {ScalarType::d, ScalarType::z}) {
        test::for_each_variant(type, triangular_case(GetParam(), side, order, 3), [&](Level3Case c) {
          if (c.side != side) return;
          c.alpha = test::factors(type).back();
          check_parts(c, type);
          c.apart = GetParam() == Routine::trmm;
          if (c.apart) check_parts(c, type);
        });
      }
    }
  }
}

// For any triangle the incomplete leaf is at its end.
TEST(TriangularRecursion, PartsBeginAtMultiplesOfTheLeaf) {
  constexpr index_t leaf = 8;
  for (const Routine routine : triangular_routines) {
    for (const bool lower : {false, true}) {
      for (index_t order = 1; order <= 5 * leaf; ++order) {
        index_t rows_of_leaves = 0;
        kernels::plan::for_each_part(routine, lower, order, leaf, [&](const kernels::plan::TriangularPart& part) {
          EXPECT_EQ(part.row % leaf, 0);
          EXPECT_EQ(part.from_row % leaf, 0);
          EXPECT_TRUE(part.rows % leaf == 0 || part.row + part.rows == order);
          EXPECT_TRUE(part.from % leaf == 0 || part.from_row + part.from == order);
          if (part.is_leaf) rows_of_leaves += part.rows;
        });
        EXPECT_EQ(rows_of_leaves, order);
      }
    }
  }
}

}  // namespace triangular_test
}  // namespace tessera
