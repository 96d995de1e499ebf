// QR factors of a panel by a team of thread blocks (src/kernels/block/qr_team.hpp), on host threads, compared with the
// textbook.
#include "kernels/block/qr_team.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/host_block_machine.hpp"
#include "tests/kernels/lapack_block_problem.hpp"

namespace tessera {
namespace qr_team_test {

using kernels::block::PartOf;
using kernels::block::parts_of;
using test::lapack_blocks::Matrix;
using test::lapack_blocks::random_matrix;

template <Scalar T>
using Wide = std::conditional_t<std::floating_point<T>, long double, std::complex<long double>>;

long double conj(long double a) { return a; }
std::complex<long double> conj(const std::complex<long double>& a) { return std::conj(a); }

/// One reflector after the other, as LAPACK defines them.
template <Scalar T>
std::vector<Wide<T>> factor(std::vector<Wide<T>>& A, index_t m, index_t n) {
  using W = Wide<T>;
  std::vector<W> taus;
  const auto at = [&](index_t i, index_t j) -> W& { return A[static_cast<std::size_t>(i + j * m)]; };
  for (index_t k = 0; k < n; ++k) {
    long double below = 0;
    for (index_t i = k + 1; i < m; ++i) below = std::hypot(below, std::abs(at(i, k)));
    const W alpha = at(k, k);
    W tau = 0;
    if (below != 0 || std::imag(alpha) != 0) {
      const long double norm = std::hypot(below, std::abs(alpha)), beta = std::real(alpha) < 0 ? norm : -norm;
      tau = (W(beta) - alpha) / W(beta);
      for (index_t i = k + 1; i < m; ++i) at(i, k) /= alpha - W(beta);
      at(k, k) = beta;
    }
    for (index_t j = k + 1; j < n; ++j) {
      W sum = at(k, j);
      for (index_t i = k + 1; i < m; ++i) sum += conj(at(i, k)) * at(i, j);
      sum *= conj(tau);
      at(k, j) -= sum;
      for (index_t i = k + 1; i < m; ++i) at(i, j) -= at(i, k) * sum;
    }
    taus.push_back(tau);
  }
  return taus;
}

constexpr int most_columns = 24;

/// How the panel has to be factored.
enum class By { columns, products };

template <Scalar T>
std::vector<T> run(Matrix<T>& A, By by) {
  using R = PartOf<T>;
  using E = kernels::block::ElementOf<T>;
  using Leaf = kernels::block::PanelShape<R, parts_of<T>, 8, 1, 64, 1>;
  using Machine = test::HostTeam<2>;
  using Team = kernels::block::QrTeam<Leaf, Machine, most_columns>;
  using Products = kernels::block::QrProducts<E, 64, most_columns, Machine>;
  const auto blocks = static_cast<int>((A.rows + 63) / 64);
  struct Memory {
    typename Team::Memory team;
    typename Products::Memory products;
  };
  std::vector<std::unique_ptr<Memory>> memory;
  for (int block = 0; block < blocks; ++block) memory.push_back(std::make_unique<Memory>());
  const auto board = std::make_unique<kernels::block::TeamBoard>();
  const auto sums = std::make_unique<typename Team::Sums>();
  const auto product_sums = std::make_unique<typename Products::Sums>();
  std::vector<T> tau(static_cast<std::size_t>(A.columns));
  std::atomic<int> factored = 0;
  test::run_team<2>(blocks, *board, 5, [&](const Machine& machine) {
    Memory& mine = *memory[static_cast<std::size_t>(machine.block())];
    E* const coefficients = reinterpret_cast<E*>(tau.data());
    const int width = static_cast<int>(A.columns);
    if (by == By::products)
      factored += Products(mine.products, *product_sums, machine).run(A.elements(), A.ld, A.rows, width, coefficients);
    else
      Team(mine.team, *sums, machine).run(A.elements(), A.ld, A.rows, width, coefficients);
  });
  if (by == By::columns) return tau;
  EXPECT_TRUE(factored == 0 || factored == 64 * blocks) << "threads do not agree";
  return factored > 0 ? tau : std::vector<T>();
}

/// @param scales the columns' magnitudes
template <Scalar T>
void check(Matrix<T> A, By by, const std::string& what, const std::vector<double>& scales = {1}) {
  using R = PartOf<T>;
  std::vector<Wide<T>> expected;
  for (index_t j = 0; j < A.columns; ++j) {
    for (index_t i = 0; i < A.rows; ++i) expected.push_back(Wide<T>(A(i, j)));
  }
  const auto expected_tau = factor<T>(expected, A.rows, A.columns);
  const std::vector<T> tau = run(A, by);
  ASSERT_EQ(tau.size(), expected_tau.size()) << what;
  const double tolerance = 40 * std::numeric_limits<R>::epsilon() * static_cast<double>(A.columns);
  for (index_t j = 0; j < A.columns; ++j) {
    EXPECT_LE(std::abs(Wide<T>(tau[static_cast<std::size_t>(j)]) - expected_tau[static_cast<std::size_t>(j)]),
              tolerance)
        << what << " tau " << j;
    const double scale = scales[static_cast<std::size_t>(j) % scales.size()];
    for (index_t i = 0; i < A.rows; ++i) {
      const auto error = std::abs(Wide<T>(A(i, j)) - expected[static_cast<std::size_t>(i + j * A.rows)]);
      EXPECT_LE(error, tolerance * (i <= j ? scale * std::sqrt(static_cast<double>(A.rows)) : 1))
          << what << " at " << i << ", " << j;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

template <class T>
class QrTeams : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(QrTeams, Types);

TYPED_TEST(QrTeams, FactorPanels) {
  using T = TypeParam;
  for (const auto& [m, n] :
       {std::pair<index_t, index_t>{1, 1}, {9, 9}, {40, 3}, {64, 8}, {65, 8}, {130, 1}, {150, 17}, {200, 24}})
    check<T>(random_matrix<T>(m, n, 5), By::columns, std::to_string(m) + " x " + std::to_string(n));
}

TYPED_TEST(QrTeams, FactorPanelsByProducts) {
  using T = TypeParam;
  for (const auto& [m, n] :
       {std::pair<index_t, index_t>{1, 1}, {9, 9}, {40, 3}, {64, 8}, {65, 8}, {130, 1}, {150, 17}, {1000, 24}})
    check<T>(random_matrix<T>(m, n, 5), By::products, std::to_string(m) + " x " + std::to_string(n));
  Matrix<T> scaled = random_matrix<T>(300, 20, 6), upper(100, 12);
  for (index_t j = 0; j < 20; ++j) {
    for (index_t i = 0; i < 300; ++i) scaled(i, j) *= static_cast<PartOf<T>>(j % 2 == 0 ? 1e6 : 1e-6);
  }
  for (index_t j = 0; j < 12; ++j) {
    for (index_t i = 0; i <= j; ++i) upper(i, j) = T(static_cast<PartOf<T>>(i + j + 1));
  }
  check<T>(scaled, By::products, "scaled", {1e6, 1e-6});
  check<T>(upper, By::products, "upper triangle", {12});
}

// A panel stays as it is if its products do not tell enough of it.
TYPED_TEST(QrTeams, ProductsRefusePanelsWithoutDigits) {
  using T = TypeParam;
  using R = PartOf<T>;
  const Matrix<T> good = random_matrix<T>(300, 20, 9);
  const R infinity = std::numeric_limits<R>::infinity(), most = std::numeric_limits<R>::max();
  const auto expect_refused = [&](const char* what, auto change) {
    Matrix<T> A = good;
    change(A);
    Matrix<T> before = A;
    EXPECT_TRUE(run(A, By::products).empty()) << what;
    EXPECT_EQ(std::memcmp(A.elements(), before.elements(), static_cast<std::size_t>(A.ld * A.columns) * sizeof(T)), 0)
        << what;
  };
  expect_refused("dependent", [&](Matrix<T>& A) {
    for (index_t i = 0; i < 300; ++i) A(i, 7) = A(i, 3) * R(2) + A(i, 4) + A(i, 7) * R(0.01);
  });
  expect_refused("NaN below the top", [](Matrix<T>& A) { A(250, 19) = T(std::numeric_limits<R>::quiet_NaN()); });
  expect_refused("NaN in the top", [](Matrix<T>& A) { A(2, 5) = T(std::numeric_limits<R>::quiet_NaN()); });
  expect_refused("infinity", [&](Matrix<T>& A) { A(100, 0) = T(infinity); });
  expect_refused("overflow", [&](Matrix<T>& A) { A(100, 2) = T(most / 2); });
  expect_refused("zero column", [](Matrix<T>& A) {
    for (index_t i = 0; i < 300; ++i) A(i, 7) = T(0);
  });
  expect_refused("too small to be squared", [](Matrix<T>& A) {
    for (index_t i = 0; i < 300; ++i) A(i, 7) *= std::numeric_limits<R>::min();
  });
}

/// Whether each reflector is unitary: |tau|^2 |v|^2 = 2 Re(tau).
template <Scalar T>
bool are_unitary(const Matrix<T>& A, const std::vector<T>& tau) {
  const auto tolerance = 2000 * static_cast<long double>(std::numeric_limits<PartOf<T>>::epsilon());
  for (index_t k = 0; k < A.columns; ++k) {
    const Wide<T> of = Wide<T>(tau[static_cast<std::size_t>(k)]);
    long double square = 1;
    for (index_t i = k + 1; i < A.rows; ++i) square += std::norm(Wide<T>(A(i, k)));
    if (std::abs(std::norm(of) * square - 2 * std::real(of)) > tolerance) return false;
  }
  return true;
}

// Rows below the top that only the first column has come into all others, and cancel in what is left of them.
TYPED_TEST(QrTeams, ProductsRefuseWhatCancelsOnTheWay) {
  using T = TypeParam;
  using R = PartOf<T>;
  int refused = 0, panels = 0;
  for (const double below : {0.0, 1e-4}) {
    for (const double rest : {1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6}) {
      for (unsigned seed = 1; seed <= 6; ++seed) {
        Matrix<T> A = random_matrix<T>(60, 8, seed);
        for (index_t i = 0; i < 60; ++i) {
          for (index_t j = 1; j < 8 && i >= 8; ++j) A(i, j) *= static_cast<R>(below);
          A(i, 7) = A(i, 6) * static_cast<R>(0.7) + A(i, 7) * static_cast<R>(rest);
        }
        const std::vector<T> tau = run(A, By::products);
        ++panels;
        tau.empty() ? ++refused : 0;
        EXPECT_TRUE(tau.empty() || are_unitary<T>(A, tau)) << below << ' ' << rest << " seed " << seed;
      }
    }
  }
  EXPECT_GT(refused, panels / 2);
}

// The square of a column below the top cancels to zero, and the column is not zero.
TYPED_TEST(QrTeams, ProductsRefuseASquareThatHasVanished) {
  using T = TypeParam;
  using R = PartOf<T>;
  const R little = std::sqrt(std::numeric_limits<R>::epsilon() / 4);
  Matrix<T> A(18, 2);
  A(1, 1) = T(16);
  for (index_t i = 2; i < 18; ++i) {
    A(i, 0) = T(1);
    A(i, 1) = T(R(1) + (i % 2 == 0 ? little : -little));
  }
  EXPECT_TRUE(run(A, By::products).empty());
}

TYPED_TEST(QrTeams, ReflectorsThatDoNothingLeaveANaNAlone) {
  using T = TypeParam;
  using R = PartOf<T>;
  Matrix<T> A = random_matrix<T>(100, 8, 9);
  for (index_t i = 0; i < 100; ++i) A(i, 0) = T(i == 0 ? 1 : 0);
  A(0, 3) = T(std::numeric_limits<R>::quiet_NaN());
  run(A, By::columns);
  for (index_t i = 1; i < 100; ++i) EXPECT_FALSE(std::isnan(std::real(A(i, 3)))) << i;
}

// Sums of squares would overflow, or vanish.
TYPED_TEST(QrTeams, ColumnsOfAnyMagnitude) {
  using T = TypeParam;
  using R = PartOf<T>;
  const double most = std::sqrt(static_cast<double>(std::numeric_limits<R>::max()));
  const std::vector<double> scales = {1, most * 1e3, 1e-3 / most, 1e-9 / most, most};
  Matrix<T> A = random_matrix<T>(100, 20, 6);
  for (index_t j = 0; j < 20; ++j) {
    for (index_t i = 0; i < 100; ++i) A(i, j) *= static_cast<R>(scales[static_cast<std::size_t>(j) % scales.size()]);
  }
  check<T>(A, By::columns, "scaled", scales);
}

TYPED_TEST(QrTeams, ZeroColumnsAndWhatIsLeftOfOthers) {
  using T = TypeParam;
  using R = PartOf<T>;
  Matrix<T> zero = random_matrix<T>(100, 12, 7), nothing(100, 12), upper(100, 12), small(100, 3);
  for (index_t i = 0; i < 100; ++i) zero(i, 5) = T(0);
  for (index_t j = 0; j < 12; ++j) {
    for (index_t i = 0; i <= j; ++i) upper(i, j) = T(static_cast<R>(i + j + 1));
  }
  check<T>(zero, By::columns, "zero column");
  check<T>(nothing, By::columns, "nothing");
  check<T>(upper, By::columns, "upper triangle", {12});
  // The rest of the second column is as small as a number can be, and no rounding error.
  small(0, 0) = T(1);
  small(0, 1) = T(1);
  for (index_t i = 1; i < 100; ++i) small(i, 1) = T(std::numeric_limits<R>::min() * static_cast<R>(i));
  const Matrix<T> before = small;
  const std::vector<T> tau = run(small, By::columns);
  R sum = 0;
  for (index_t i = 1; i < 100; ++i) sum += static_cast<R>(i) * static_cast<R>(i);
  EXPECT_NEAR(std::abs(small(1, 1)) / std::numeric_limits<R>::min(), std::sqrt(sum), 1e-3 * std::sqrt(sum));
  EXPECT_NEAR(std::abs(tau[1]), 1, 0.1);
}

TYPED_TEST(QrTeams, NotANumberSpreadsToTheRight) {
  using T = TypeParam;
  using R = PartOf<T>;
  for (const R value : {std::numeric_limits<R>::quiet_NaN(), std::numeric_limits<R>::infinity()}) {
    Matrix<T> A = random_matrix<T>(100, 20, 8), clean = A;
    A(70, 6) = T(value);
    const std::vector<T> tau = run(A, By::columns), clean_tau = run(clean, By::columns);
    const auto is_nan = [](const T& a) { return std::isnan(std::real(a)) || std::isnan(std::imag(a)); };
    for (index_t j = 0; j < 20; ++j) {
      EXPECT_EQ(is_nan(tau[static_cast<std::size_t>(j)]), j >= 6) << j;
      for (index_t i = 0; i < 100; ++i) {
        if (j < 6) {
          EXPECT_EQ(A(i, j), clean(i, j));
        } else if (i >= 6 && (i != 70 || j != 6)) {
          EXPECT_TRUE(is_nan(A(i, j))) << i << ", " << j;
        }
      }
    }
  }
}

}  // namespace qr_team_test
}  // namespace tessera
