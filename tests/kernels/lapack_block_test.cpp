// The thread blocks that factor matrices (src/kernels/block), on host threads, compared with the readable LAPACK:
// panels in registers and in memory, sweeps of several leaves, strips beside a panel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <vector>

#include "kernels/block/lu_strip.hpp"
#include "kernels/block/lu_sweep.hpp"
#include "kernels/block/vector_solve.hpp"
#include "kernels/reference/reference_lapack.hpp"
#include "tests/kernels/host_block_machine.hpp"
#include "tests/kernels/lapack_block_problem.hpp"

namespace tessera {
namespace lapack_block_test {

using kernels::block::ElementOf;
using kernels::block::Numbers;
using kernels::block::PartOf;
using kernels::block::parts_of;
using test::lapack_blocks::by_reference;
using test::lapack_blocks::expect_near;
using test::lapack_blocks::Matrix;
using test::lapack_blocks::random_matrix;
using test::lapack_blocks::random_value;

template <Scalar T, bool pivots, int columns, bool any_height, int rows_of_thread = 1>
void run_sweep(Matrix<T>& A, std::vector<int>& ipiv, index_t first, index_t width, int& info, double tiny = 0) {
  using R = PartOf<T>;
  using Leaf = kernels::block::PanelShape<R, parts_of<T>, columns, rows_of_thread, 64>;
  using Block = kernels::block::GemmShape<R, parts_of<T>, 32, 16, 2, 1, 2>;
  using Machine = test::HostWarps<2, true>;
  using Sweep = kernels::block::LuSweep<Leaf, Block, Machine, pivots, any_height>;
  const auto memory = std::make_unique<typename Sweep::Memory>();
  test::run_block<Block, Machine>([&](const Machine& machine) {
    Sweep sweep(*memory, machine);
    const index_t zero =
        sweep.run(A.elements() + first + first * A.ld, A.ld, A.rows - first, std::min(width, A.columns - first),
                  Numbers{ipiv.data(), false}, first, static_cast<R>(tiny));
    if (machine.thread() == 0 && zero > 0 && info == 0) info = static_cast<int>(first + zero);
  });
}

/// One permutation has the effect of successive interchanges, for tops of all heights.
template <int most>
void check_interchanges() {
  using Block = kernels::block::GemmShape<double, 1, 16, 8, 1, 1, 2>;  // a warp
  using Machine = test::HostWarps<1, true>;
  std::mt19937 random(20);
  for (int turn = 0; turn < 60; ++turn) {
    const int count = turn < 3 ? most - turn : std::uniform_int_distribution<int>(1, most)(random);
    const int rows = turn % 3 == 0 ? count + 1 : count + std::uniform_int_distribution<int>(0, 2 * most)(random);
    std::vector<int> pivots;
    for (int i = 0; i < count; ++i) pivots.push_back(std::uniform_int_distribution<int>(i, rows - 1)(random));
    std::vector<int> expected(static_cast<std::size_t>(rows)), column(expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = column[i] = static_cast<int>(i);
    const std::vector<int> before = column;
    for (int i = 0; i < count; ++i)
      std::swap(expected[static_cast<std::size_t>(i)],
                expected[static_cast<std::size_t>(pivots[static_cast<std::size_t>(i)])]);
    kernels::block::Interchanges<most> all;
    test::run_block<Block, Machine>([&](const Machine& machine) {
      all.make(
          machine, [&](int i) { return pivots[static_cast<std::size_t>(i)]; }, count);
    });
    for (int i = 0; i < count; ++i) {
      column[static_cast<std::size_t>(i)] = before[static_cast<std::size_t>(all.source[i])];
      if (all.target[i] >= 0) column[static_cast<std::size_t>(all.target[i])] = before[static_cast<std::size_t>(i)];
    }
    ASSERT_EQ(column, expected) << count << " of " << most << ", " << rows << " rows";
  }
}

TEST(Interchanges, AreOnePermutation) {
  check_interchanges<8>();
  check_interchanges<16>();
  check_interchanges<32>();
  check_interchanges<64>();
}

template <class T>
class LapackBlocks : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(LapackBlocks, Types);

template <Scalar T, bool any_height, int rows_of_thread = 1>
void check_lu(Matrix<T> A, const std::string& what) {
  Matrix<T> expected = A;
  std::vector<int> expected_pivots(static_cast<std::size_t>(std::min(A.rows, A.columns)) + 1, -7);
  std::vector<int> pivots = expected_pivots;
  const int expected_info = by_reference(Routine::getrf, expected, expected_pivots);
  int info = 0;
  run_sweep<T, true, 8, any_height, rows_of_thread>(A, pivots, 0, A.columns, info);
  EXPECT_EQ(info, expected_info) << what;
  EXPECT_EQ(pivots, expected_pivots) << what;
  expect_near(A, expected, what);
}

TYPED_TEST(LapackBlocks, SweepsFactorWithPivots) {
  using T = TypeParam;
  for (const auto& [m, n] :
       {std::pair<index_t, index_t>{1, 1}, {2, 3}, {7, 5}, {8, 8}, {9, 9}, {20, 31}, {33, 17}, {40, 40}, {64, 23}})
    check_lu<T, false>(random_matrix<T>(m, n, 5), std::to_string(m) + " x " + std::to_string(n));
}

TYPED_TEST(LapackBlocks, HigherSweepsFactorInMemory) {
  using T = TypeParam;
  check_lu<T, true>(random_matrix<T>(90, 21, 6), "90 x 21");
  check_lu<T, true, 2>(random_matrix<T>(150, 37, 7), "150 x 37");
}

TYPED_TEST(LapackBlocks, HardMatrices) {
  using T = TypeParam;
  using R = PartOf<T>;
  const R nan = std::numeric_limits<R>::quiet_NaN();
  for (const index_t m : {index_t{12}, index_t{80}}) {
    const index_t n = 12;
    Matrix<T> ties(m, n);  // sums of integers are exact
    for (index_t j = 0; j < n; ++j) {
      for (index_t i = 0; i < m; ++i) ties(i, j) = T(static_cast<R>((i * 7 + j * 3) % 5 < 2 ? 1 : -1));
    }
    Matrix<T> zero_column = random_matrix<T>(m, n, 8);
    for (index_t i = 0; i < m; ++i) zero_column(i, 5) = T(0);
    Matrix<T> nothing(m, n), minus_zero = random_matrix<T>(m, n, 19);
    for (index_t i = 1; i < m; ++i) minus_zero(i, 0) = -T(0);
    Matrix<T> first_is_nan = random_matrix<T>(m, n, 9), other_is_nan = first_is_nan, tiny = first_is_nan;
    first_is_nan(0, 0) = T(nan);
    other_is_nan(3, 0) = T(nan);
    for (T& value : tiny.values) value *= std::numeric_limits<R>::min() / 4;
    const std::pair<const char*, Matrix<T>*> all[] = {{"ties", &ties},
                                                      {"zero column", &zero_column},
                                                      {"zero", &nothing},
                                                      {"minus zero", &minus_zero},
                                                      {"NaN first", &first_is_nan},
                                                      {"NaN", &other_is_nan},
                                                      {"subnormal", &tiny}};
    for (const auto& [name, A] : all) {
      // The results of NaN, and of fused sums of complex numbers, depend on the order.
      if (std::string(name).starts_with("NaN")) {
        Matrix<T> expected = *A;
        std::vector<int> expected_pivots(13, -7), pivots(13, -7);
        by_reference(Routine::getrf, expected, expected_pivots);
        int info = 0;
        m == 12 ? run_sweep<T, true, 8, false>(*A, pivots, 0, n, info)
                : run_sweep<T, true, 8, true>(*A, pivots, 0, n, info);
        EXPECT_EQ(pivots[0], expected_pivots[0]) << name;
        continue;
      }
      const std::string what = name + std::string(" ") + std::to_string(m);
      m == 12 ? check_lu<T, false>(*A, what) : check_lu<T, true>(*A, what);
    }
  }
}

TYPED_TEST(LapackBlocks, SweepsFactorWithoutPivots) {
  using T = TypeParam;
  for (const index_t m : {index_t{5}, index_t{25}, index_t{70}}) {
    for (const double tiny : {0.0, 0.25}) {
      Matrix<T> A = random_matrix<T>(m, 20, 11);
      for (index_t i = 0; i < std::min<index_t>(m, 20); ++i)
        A(i, i) += T(static_cast<PartOf<T>>(i % 4 == 3 ? 0.0 : 25.0));
      if (m == 25) {  // the second pivot is zero, exactly
        A(0, 0) = T(4);
        A(0, 1) = T(2);
        A(1, 0) = T(8);
        A(1, 1) = T(4);
      }
      Matrix<T> expected = A;
      std::vector<int> none(21, -7);
      const int expected_info = by_reference(Routine::getrf_nopiv, expected, none, Uplo::lower, tiny);
      int info = 0;
      m > 64 ? run_sweep<T, false, 8, true>(A, none, 0, 20, info, tiny)
             : run_sweep<T, false, 8, false>(A, none, 0, 20, info, tiny);
      EXPECT_EQ(info, expected_info);
      EXPECT_EQ(none, std::vector<int>(21, -7)) << "nobody asked for pivots";
      expect_near(A, expected, "without pivots, " + std::to_string(m));
    }
  }
}

/// Panels, their effects on the columns beside them, and the update, as separate launches compute them.
TYPED_TEST(LapackBlocks, PanelsAndStripsFactorLargerOnes) {
  using T = TypeParam;
  using R = PartOf<T>;
  using Strip = kernels::block::StripShape<R, parts_of<T>, 2, 8>;
  using Machine = test::HostWarps<2, true>;
  using LuStrip = kernels::block::LuStrip<Strip, Machine>;
  for (const auto& [m, n] : {std::pair<index_t, index_t>{75, 75}, {40, 90}, {100, 50}}) {
    Matrix<T> A = random_matrix<T>(m, n, 12), expected = A;
    std::vector<int> pivots(static_cast<std::size_t>(std::min(m, n)), -7), expected_pivots = pivots;
    EXPECT_EQ(by_reference(Routine::getrf, expected, expected_pivots), 0);
    int info = 0;
    for (index_t first = 0; first < std::min(m, n); first += Strip::rows) {
      run_sweep<T, true, 8, true>(A, pivots, first, Strip::rows, info);
      kernels::block::LapackProblem<ElementOf<T>> problem;
      problem.m = m;
      problem.n = n;
      problem.A = A.elements();
      problem.lda = A.ld;
      problem.ipiv = {pivots.data(), false};
      const auto run_strips = [&](index_t begin, index_t end) {
        for (index_t column = begin; column < end; column += Strip::columns) {
          const auto memory = std::make_unique<typename LuStrip::Memory>();
          test::run_block<Strip, Machine>([&](const Machine& machine) {
            LuStrip strip(*memory, machine);
            strip.begin(problem, first);
            strip.run(column, end);
          });
        }
      };
      run_strips(0, first);
      run_strips(first + Strip::rows, n);
      for (index_t j = first + Strip::rows; j < n; ++j) {
        for (index_t l = first; l < first + Strip::rows; ++l) {
          for (index_t i = first + Strip::rows; i < m; ++i) A(i, j) -= A(i, l) * A(l, j);
        }
      }
    }
    EXPECT_EQ(pivots, expected_pivots);
    expect_near(A, expected, std::to_string(m) + " x " + std::to_string(n));
  }
}

/// Factors by warps whose threads have so many rows.
template <Scalar T, int columns, int rows_of_thread, int warps, int columns_of_group>
void expect_panels_in_registers() {
  using R = PartOf<T>;
  using Shape = kernels::block::PanelShape<R, parts_of<T>, columns, rows_of_thread, 32 * warps, columns_of_group>;
  using Block = kernels::block::GemmShape<R, parts_of<T>, 16 * warps, 8, warps, 1, 2>;  // its threads
  using Machine = test::HostWarps<warps, true>;
  constexpr index_t most_rows = Shape::rows;
  for (const auto& [m, n] : {std::pair<index_t, index_t>{33, 33}, {64, 64}, {40, 64}, {64, 20}, {1, 50}, {47, 46}}) {
    if (m > most_rows || n > columns) continue;
    Matrix<T> A = random_matrix<T>(m, n, 16), expected = A;
    std::vector<int> pivots(64, -7), expected_pivots(64, -7);
    const auto steps = static_cast<int>(std::min(m, n));
    EXPECT_EQ(by_reference(Routine::getrf, expected, expected_pivots), 0);
    kernels::block::PanelMemory<Shape> memory;
    test::run_block<Block, Machine>([&, m = m, n = n](Machine machine) {
      kernels::block::LuPanel<Shape, Machine, true> panel(memory, machine);
      panel.load(A.elements(), A.ld, static_cast<int>(m), static_cast<int>(n));
      EXPECT_EQ(panel.factor(), 0);
      machine.meet();
      panel.store(A.elements(), A.ld);
    });
    for (int i = 0; i < steps; ++i) pivots[static_cast<std::size_t>(i)] = memory.pivots[i] + 1;
    EXPECT_EQ(pivots, expected_pivots);
    expect_near(A, expected, std::to_string(m) + " x " + std::to_string(n));
  }
}

TYPED_TEST(LapackBlocks, RegistersOfTwoWarpsHoldOneMatrix) {
  expect_panels_in_registers<TypeParam, 64, 1, 2, 4>();
  expect_panels_in_registers<TypeParam, 64, 1, 2, 1>();
}
TYPED_TEST(LapackBlocks, RegistersOfAWarpHoldTwoRowsOfEachThread) {
  expect_panels_in_registers<TypeParam, 48, 2, 1, 4>();
  expect_panels_in_registers<TypeParam, 64, 2, 1, 8>();
}

/// The solve with one right-hand side, for all kinds of factors of potrs and getrs.
TYPED_TEST(LapackBlocks, AWarpSolvesWithOneRightHandSide) {
  using T = TypeParam;
  using R = PartOf<T>;
  using Block = kernels::block::GemmShape<R, parts_of<T>, 16, 8, 1, 1, 2>;  // a warp
  using Machine = test::HostWarps<1, true>;
  for (const index_t n : {1, 7, 32, 33, 50, 64}) {
    Matrix<T> A = random_matrix<T>(n, n, 17);
    for (T& value : A.values) value /= static_cast<R>(n);  // so that the unit triangle is well conditioned, too
    for (index_t i = 0; i < n; ++i) A(i, i) += T(R(2));
    A(0, 0) = T(std::numeric_limits<R>::min() / 8);  // its reciprocal overflows
    for (index_t i = 1; i < n; ++i) A(i, 0) = A(0, i) = T(0);
    for (int variant = 0; variant < 8; ++variant) {
      const bool forward = (variant & 1) != 0, transposed = (variant & 2) != 0, unit = (variant & 4) != 0;
      const bool conjugates = transposed && unit;
      const auto of_t = [&](index_t i, index_t j) {
        const T value = transposed ? A(j, i) : A(i, j);
        if constexpr (!std::floating_point<T>) return conjugates ? std::conj(value) : value;
        return value;
      };
      std::mt19937 random(18);
      std::vector<T> x(static_cast<std::size_t>(n)), b(x.size()), got(x.size());
      for (T& value : x) value = random_value<T>(random);
      for (index_t i = 0; i < n; ++i) {
        T sum(0);
        for (index_t j = 0; j < n; ++j) {
          if (forward ? j < i : j > i) sum += of_t(i, j) * x[static_cast<std::size_t>(j)];
        }
        const T on_diagonal = unit ? T(1) : of_t(i, i);
        b[static_cast<std::size_t>(i)] = sum + on_diagonal * x[static_cast<std::size_t>(i)];
      }
      using Solve = kernels::block::VectorSolve<R, parts_of<T>, 2, 32, Machine>;
      typename Solve::Memory tile;
      test::run_block<Block, Machine>([&](const Machine& machine) {
        Solve solve(tile, A.elements(), A.ld, static_cast<int>(n), kernels::block::Region::full, machine);
        const auto* const from = reinterpret_cast<const ElementOf<T>*>(b.data());
        auto* const to = reinterpret_cast<ElementOf<T>*>(got.data());
        solve.for_each_row([&](int row, ElementOf<T>& value) { value = from[row]; });
        if (forward)
          solve.template solve<true>(transposed, unit, conjugates);
        else
          solve.template solve<false>(transposed, unit, conjugates);
        solve.for_each_row([&](int row, const ElementOf<T>& value) { to[row] = value; });
      });
      for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_LE(std::abs(got[i] - x[i]), (i == 0 && !unit ? R(1e-3) : R(200) * std::numeric_limits<R>::epsilon()))
            << "n = " << n << ", variant " << variant << ", row " << i;
    }
  }
}

/// L = (1 0; 1/2 1) and L^H with an infinite right-hand side: lanes without a row contribute nothing.
TYPED_TEST(LapackBlocks, RowsThatAreNotThereChangeNoInfiniteSolution) {
  using T = TypeParam;
  using R = PartOf<T>;
  if constexpr (std::floating_point<T>) {
    using Block = kernels::block::GemmShape<R, 1, 16, 8, 1, 1, 2>;  // a warp
    using Machine = test::HostWarps<1, true>;
    for (const bool transposed : {false, true}) {
      Matrix<T> A(2, 2);
      A(0, 0) = A(1, 1) = 1;
      (transposed ? A(0, 1) : A(1, 0)) = R(0.5);
      std::vector<T> x{std::numeric_limits<R>::infinity(), 0};
      using Solve = kernels::block::VectorSolve<R, 1, 2, 32, Machine>;
      typename Solve::Memory tile;
      test::run_block<Block, Machine>([&](const Machine& machine) {
        Solve solve(tile, A.elements(), A.ld, 2, kernels::block::Region::full, machine);
        auto* const b = reinterpret_cast<ElementOf<T>*>(x.data());
        solve.for_each_row([&](int row, ElementOf<T>& value) { value = b[row]; });
        solve.template solve<true>(transposed, false, false);
        solve.template solve<false>(!transposed, false, false);
        solve.for_each_row([&](int row, const ElementOf<T>& value) { b[row] = value; });
      });
      EXPECT_EQ(x[0], std::numeric_limits<R>::infinity());
      EXPECT_EQ(x[1], -std::numeric_limits<R>::infinity());
    }
  }
}

/// Below a zero on the diagonal a column stays as it is, to the bit.
TYPED_TEST(LapackBlocks, ColumnsOfZeroPivotsAreNotScaled) {
  using T = TypeParam;
  using R = PartOf<T>;
  for (const index_t m : {index_t{9}, index_t{80}}) {
    Matrix<T> A = random_matrix<T>(m, 3, 21);
    A(0, 0) = T(0);
    A(1, 0) = T(std::numeric_limits<R>::infinity());
    if constexpr (!std::floating_point<T>) A(2, 0) = T(std::numeric_limits<R>::infinity(), 1);
    const Matrix<T> before = A;
    std::vector<int> none(4, -7);
    int info = 0;
    m > 64 ? run_sweep<T, false, 8, true>(A, none, 0, 3, info) : run_sweep<T, false, 8, false>(A, none, 0, 3, info);
    EXPECT_EQ(info, 1);
    for (index_t i = 1; i < m; ++i) EXPECT_EQ(A(i, 0), before(i, 0)) << i;
  }
}

}  // namespace lapack_block_test
}  // namespace tessera
