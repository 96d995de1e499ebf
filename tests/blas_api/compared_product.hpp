// One product of the C API against the oracle.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "tessera/tessera.hpp"

namespace tessera::test {

template <Scalar T>
T random_value(std::mt19937& random) {
  std::uniform_real_distribution<double> value(-0.5, 0.5);
  const double real = value(random);
  return scalar_cast<T>(AnyScalar(real, value(random)));
}

template <Scalar T>
std::vector<T> random_elements(index_t elements, std::mt19937& random) {
  std::vector<T> matrix(static_cast<std::size_t>(elements));
  for (T& element : matrix) element = random_value<T>(random);
  return matrix;
}

inline Op op_of(tessera_transpose transpose) { return static_cast<Op>(static_cast<int>(transpose) - TESSERA_NO_TRANS); }

/// One product against the oracle, everything of C compared, padding included.
template <Scalar T>
void compare_with_oracle(const Context& context, tessera_layout layout, tessera_transpose ta, tessera_transpose tb,
                         index_t m, index_t n, index_t k, T alpha, T beta, unsigned seed) {
  std::mt19937 random(seed);
  const bool row_major = layout == TESSERA_ROW_MAJOR;
  const index_t a_rows = ta == TESSERA_NO_TRANS ? m : k, a_cols = ta == TESSERA_NO_TRANS ? k : m;
  const index_t b_rows = tb == TESSERA_NO_TRANS ? k : n, b_cols = tb == TESSERA_NO_TRANS ? n : k;
  const index_t lda = (row_major ? a_cols : a_rows) + 1, ldb = (row_major ? b_cols : b_rows) + 2;
  const index_t ldc = (row_major ? n : m) + 3;
  const std::vector<T> A = random_elements<T>(lda * (row_major ? a_rows : a_cols), random);
  const std::vector<T> B = random_elements<T>(ldb * (row_major ? b_rows : b_cols), random);
  std::vector<T> C = random_elements<T>(ldc * (row_major ? m : n), random);
  if (beta == T(0)) {
    for (index_t j = 0; j < (row_major ? m : n); ++j) {
      for (index_t i = 0; i < (row_major ? n : m); ++i) {
        C[static_cast<std::size_t>(i + j * ldc)] = scalar_cast<T>(AnyScalar(std::nan(""), std::nan("")));
      }
    }
  }
  std::vector<T> expected = C;
  if (row_major) {
    kernels::reference_gemm<T, kernels::Wide<T>>(op_of(tb), op_of(ta), n, m, k, alpha, B.data(), ldb, A.data(), lda,
                                                 beta, expected.data(), ldc);
  } else {
    kernels::reference_gemm<T, kernels::Wide<T>>(op_of(ta), op_of(tb), m, n, k, alpha, A.data(), lda, B.data(), ldb,
                                                 beta, expected.data(), ldc);
  }
  gemm(context, layout, ta, tb, m, n, k, alpha, A.data(), lda, B.data(), ldb, beta, C.data(), ldc);

  const bool single = std::same_as<T, float> || std::same_as<T, std::complex<float>>;
  const double bound = (single ? 6e-8 : 1.2e-16) * 8 * static_cast<double>(k + 4);
  const index_t run = row_major ? n : m;
  for (std::size_t i = 0; i < C.size(); ++i) {
    const bool padding = static_cast<index_t>(i) % ldc >= run;
    if (padding) {
      ASSERT_EQ(std::memcmp(&C[i], &expected[i], sizeof(T)), 0) << "padding at " << i;
    } else {
      ASSERT_LE(std::abs(C[i] - expected[i]), bound) << "element " << i;
    }
  }
}

}  // namespace tessera::test
