// A tile product on host memory with its operands, for the tests of gemm kernels: random values, padding that must not
// change, and the comparison with the oracle by a bound that holds for every order of summation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <vector>

#include "kernels/host/reference.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::test {

struct GemmShape {
  index_t m, n, k;
  index_t padding;  ///< ld - rows, of every operand
};

template <Scalar T>
struct RealOf {
  using type = T;
};
template <class Real>
struct RealOf<std::complex<Real>> {
  using type = Real;
};

template <Scalar T>
T random_value(std::mt19937& generator) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  const double re = uniform(generator);
  const double im = uniform(generator);
  return scalar_cast<T>(AnyScalar(re, im));
}

template <Scalar T>
T not_a_number() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return scalar_cast<T>(AnyScalar(nan, nan));
}

template <Scalar T>
class GemmProblem {
 public:
  GemmProblem(Op op_x, Op op_y, const GemmShape& s, AnyScalar alpha, AnyScalar beta, std::uint32_t seed = 1) {
    product.type = scalar_type_of<T>();
    product.op_a = op_x;
    product.op_b = op_y;
    product.m = s.m;
    product.n = s.n;
    product.k = s.k;
    product.alpha = alpha;
    product.beta = beta;
    const index_t x_rows = op_x == Op::no_trans ? s.m : s.k;
    const index_t y_rows = op_y == Op::no_trans ? s.k : s.n;
    product.lda = std::max<index_t>(1, x_rows + s.padding);
    product.ldb = std::max<index_t>(1, y_rows + s.padding);
    product.ldc = std::max<index_t>(1, s.m + s.padding);
    std::mt19937 generator(seed);
    X = matrix(x_rows, op_x == Op::no_trans ? s.k : s.m, product.lda, generator);
    Y = matrix(y_rows, op_y == Op::no_trans ? s.n : s.k, product.ldb, generator);
    C = matrix(s.m, s.n, product.ldc, generator);
    // What must not be read is not a number.
    if (beta == AnyScalar(0)) fill(C);
    point_at_host(product, C);
  }

  void poison_inputs() {
    fill(X);
    fill(Y);
  }

  /// Addresses of the operands in host memory, with `c` as the output.
  void point_at_host(Level3& p, std::vector<T>& c) const {
    p.A = reinterpret_cast<const std::byte*>(X.data());
    p.B = reinterpret_cast<const std::byte*>(Y.data());
    p.C = reinterpret_cast<std::byte*>(c.data());
  }

  /// Compares what a kernel made of C with the oracle.
  ///
  /// Bound per element, for any order of summation with or without fused operations (Higham, Accuracy and Stability,
  /// sections 3.1 and 3.6): |computed - exact| <= gamma * (|alpha| * sum |x||y| + |beta||c|), gamma = (k + 4) * u,
  /// times 2 sqrt(2) for complex.
  void expect_result(const std::vector<T>& result) const {
    std::vector<T> oracle = C;
    Level3 p = product;
    point_at_host(p, oracle);
    kernels::oracle_gemm(p);
    using Real = typename RealOf<T>::type;
    const long double u = std::numeric_limits<Real>::epsilon() / 2;
    const long double gamma = static_cast<long double>(p.k + 4) * u * (is_complex(p.type) ? 2 * std::sqrt(2.0L) : 1);
    ASSERT_EQ(result.size(), oracle.size());
    for (index_t j = 0; j < p.n; ++j) {
      for (index_t i = 0; i < p.m; ++i) {
        const auto at = static_cast<std::size_t>(i + j * p.ldc);
        long double magnitude = 0;
        if (p.alpha != AnyScalar(0)) {
          for (index_t l = 0; l < p.k; ++l) {
            magnitude += std::abs(kernels::op_element<Wide>(p.op_a, X.data(), p.lda, i, l)) *
                         std::abs(kernels::op_element<Wide>(p.op_b, Y.data(), p.ldb, l, j));
          }
          magnitude *= std::abs(Wide(scalar_cast<T>(p.alpha)));
        }
        if (p.beta != AnyScalar(0)) magnitude += std::abs(Wide(scalar_cast<T>(p.beta))) * std::abs(Wide(C[at]));
        const long double error = std::abs(Wide(result[at]) - Wide(oracle[at]));
        // A NaN fails this.
        ASSERT_TRUE(error <= gamma * magnitude)
            << *this << ": element (" << i << ", " << j << ") is " << result[at] << ", not " << oracle[at];
      }
    }
    expect_padding(result, C, p.m, p.n, p.ldc);
  }

  /// Everything outside the m x n block is what it was, byte for byte.
  void expect_padding(const std::vector<T>& after, const std::vector<T>& before, index_t rows, index_t cols,
                      index_t ld) const {
    for (std::size_t at = 0; at < before.size(); ++at) {
      const auto index = static_cast<index_t>(at);
      if (index % ld < rows && index / ld < cols) continue;
      ASSERT_EQ(std::memcmp(&after[at], &before[at], sizeof(T)), 0) << *this << ": padding at " << at << " was written";
    }
  }

  friend std::ostream& operator<<(std::ostream& out, const GemmProblem& g) {
    const Level3& p = g.product;
    return out << letter(p.type) << "gemm "
               << "NTC"[static_cast<int>(p.op_a)] << "NTC"[static_cast<int>(p.op_b)] << ' ' << p.m << " x " << p.n
               << " x " << p.k << ", alpha " << p.alpha << ", beta " << p.beta << ", ldc " << p.ldc;
  }

  Level3 product;
  std::vector<T> X, Y, C;

 private:
  using Wide = kernels::Wide<T>;

  static void fill(std::vector<T>& values) {
    for (T& value : values) value = not_a_number<T>();
  }

  /// The padding is not a number either.
  static std::vector<T> matrix(index_t rows, index_t cols, index_t ld, std::mt19937& generator) {
    std::vector<T> values(static_cast<std::size_t>(std::max<index_t>(1, ld * cols)), not_a_number<T>());
    for (index_t j = 0; j < cols; ++j) {
      for (index_t i = 0; i < rows; ++i) values[static_cast<std::size_t>(i + j * ld)] = random_value<T>(generator);
    }
    return values;
  }
};

inline const std::vector<Op>& all_ops() {
  static const std::vector<Op> ops = {Op::no_trans, Op::trans, Op::conj_trans};
  return ops;
}

/// 0, 1 and others; in complex types one that is not real, too.
inline std::vector<AnyScalar> factors(ScalarType type) {
  std::vector<AnyScalar> values = {0, 1, -1.5};
  if (is_complex(type)) values.emplace_back(0.5, -1.25);
  return values;
}

/// Calls f(problem) for every combination of type, ops, alpha and beta on each of the shapes.
template <class F>
void for_each_problem(const std::vector<GemmShape>& shapes, F&& f) {
  for (const ScalarType type : {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z}) {
    dispatch(type, [&]<Scalar T>(T) {
      for (const Op op_x : all_ops()) {
        for (const Op op_y : all_ops()) {
          for (const GemmShape& shape : shapes) {
            for (const AnyScalar alpha : factors(type)) {
              for (const AnyScalar beta : factors(type)) {
                GemmProblem<T> problem(op_x, op_y, shape, alpha, beta);
                f(problem);
                if (::testing::Test::HasFatalFailure()) return;
              }
            }
          }
        }
      }
    });
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace tessera::test
