// Small matrices for the thread blocks that factor, and their factors by the readable LAPACK.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/reference/reference_lapack.hpp"
#include "tests/kernels/host_block_machine.hpp"

namespace tessera::test::lapack_blocks {

template <Scalar T>
struct Matrix {
  index_t rows, columns, ld;
  std::vector<T> values;

  Matrix(index_t m, index_t n, index_t padding = 3)
      : rows(m), columns(n), ld(std::max<index_t>(m, 1) + padding), values(static_cast<std::size_t>(ld * n)) {}
  T& operator()(index_t i, index_t j) { return values[static_cast<std::size_t>(i + j * ld)]; }
  const T& operator()(index_t i, index_t j) const { return values[static_cast<std::size_t>(i + j * ld)]; }
  kernels::block::ElementOf<T>* elements() { return reinterpret_cast<kernels::block::ElementOf<T>*>(values.data()); }
};

template <Scalar T>
T random_value(std::mt19937& random) {
  std::uniform_real_distribution<double> value(-1, 1);
  if constexpr (std::floating_point<T>)
    return static_cast<T>(value(random));
  else
    return T(static_cast<typename T::value_type>(value(random)), static_cast<typename T::value_type>(value(random)));
}

template <Scalar T>
Matrix<T> random_matrix(index_t m, index_t n, unsigned seed) {
  std::mt19937 random(seed);
  Matrix<T> A(m, n);
  for (T& value : A.values) value = random_value<T>(random);
  return A;
}

/// Positive definite; elements that must not be read are NaN.
template <Scalar T>
Matrix<T> positive_matrix(index_t n, Uplo uplo, unsigned seed) {
  Matrix<T> A = random_matrix<T>(n, n, seed);
  for (index_t j = 0; j < n; ++j) {
    A(j, j) = T(static_cast<kernels::block::PartOf<T>>(n + 1));
    for (index_t i = 0; i < n; ++i) {
      if (uplo == Uplo::lower ? i < j : i > j) A(i, j) = T(std::numeric_limits<kernels::block::PartOf<T>>::quiet_NaN());
    }
  }
  return A;
}

template <Scalar T>
int by_reference(Routine routine, Matrix<T>& A, std::vector<int>& pivots, Uplo uplo = Uplo::lower, double tiny = 0) {
  int info = -99;
  kernels::LapackBatch batch;
  batch.routine = routine;
  batch.type = scalar_type_of<T>();
  batch.uplo = uplo;
  batch.count = 1;
  batch.m.of_all = A.rows;
  batch.n.of_all = A.columns;
  batch.lda.of_all = A.ld;
  batch.A.first = A.values.data();
  batch.ipiv.first = pivots.data();
  batch.tiny = tiny;
  batch.info = &info;
  kernels::reference_lapack_batch(batch);
  return info;
}

template <Scalar T>
void expect_near(const Matrix<T>& got, const Matrix<T>& expected, const std::string& what) {
  using R = kernels::block::PartOf<T>;
  double largest = 0, difference = 0;
  for (index_t j = 0; j < got.columns; ++j) {
    for (index_t i = 0; i < got.ld; ++i) {
      const T g = got(i, j), e = expected(i, j);
      if (g == e || (g != g && e != e)) continue;
      largest = std::max<double>(largest, std::abs(e));
      difference = std::max<double>(difference, std::isnan(std::abs(g - e)) ? 1e300 : std::abs(g - e));
    }
  }
  EXPECT_LE(difference,
            300 * static_cast<double>(got.rows + 4) * std::numeric_limits<R>::epsilon() * std::max(largest, 1.0))
      << what;
}

}  // namespace tessera::test::lapack_blocks
