// Factors of symmetric and Hermitian indefinite matrices (sytrf, hetrf of LAPACK): the matrix that they are of, by the
// definition of the factorization, and random factors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "core/scalar.hpp"
#include "kernels/reference/dense_matrix.hpp"

namespace tessera::test {

/// Factors in one triangle of an n x n matrix. Elements of the other triangle are not used.
struct IndefiniteFactors {
  kernels::Dense<AnyScalar> elements;
  std::vector<std::int64_t> pivots = {};  ///< LAPACK's, from 1
  Uplo uplo = Uplo::lower;
  bool is_hermitian = false;

  bool is_lower() const { return uplo == Uplo::lower; }
  index_t order() const { return elements.rows; }
  AnyScalar conjugate(AnyScalar value) const { return is_hermitian ? std::conj(value) : value; }

  /// First rows and sizes of the diagonal blocks, in the order in which elimination makes them.
  /// @return nothing if a pivot is not one of LAPACK's
  std::vector<std::pair<index_t, index_t>> blocks() const {
    std::vector<std::pair<index_t, index_t>> found;
    const index_t n = order(), step = is_lower() ? 1 : -1;
    for (index_t k = is_lower() ? 0 : n - 1; k >= 0 && k < n;) {
      const std::int64_t pivot = pivots[static_cast<std::size_t>(k)];
      const index_t size = pivot > 0 ? 1 : 2, last = k + step * (size - 1), row = std::abs(pivot) - 1;
      if (last < 0 || last >= n || pivots[static_cast<std::size_t>(last)] != pivot) return {};
      if (is_lower() ? row < last || row >= n : row < 0 || row > last) return {};
      found.emplace_back(std::min(k, last), size);
      k += step * size;
    }
    return found;
  }

  /// The matrix P1 L1 P2 L2 ... D ... L2' P2' L1' P1'. @pre the pivots are good
  kernels::Dense<AnyScalar> matrix() const {
    const index_t n = order();
    kernels::Dense<AnyScalar> A{n, n};
    const auto all = blocks();
    for (const auto& [k, size] : all) {
      for (index_t i = k; i < k + size; ++i) A(i, i) = is_hermitian ? elements(i, i).real() : elements(i, i);
      if (size == 1) continue;
      const AnyScalar beside = is_lower() ? elements(k + 1, k) : elements(k, k + 1);
      A(k + 1, k) = is_lower() ? beside : conjugate(beside);
      A(k, k + 1) = is_lower() ? conjugate(beside) : beside;
    }
    for (auto block = all.rbegin(); block != all.rend(); ++block) wrap(A, block->first, block->second);
    return A;
  }

 private:
  /// A becomes P L A L' P', with the columns of L that belong to a block.
  void wrap(kernels::Dense<AnyScalar>& A, index_t k, index_t size) const {
    const index_t n = order(), first = is_lower() ? k + size : 0, last = is_lower() ? n : k;
    for (index_t c = k; c < k + size; ++c) {
      for (index_t j = 0; j < n; ++j) {
        for (index_t i = first; i < last; ++i) A(i, j) += elements(i, c) * A(c, j);
      }
    }
    for (index_t c = k; c < k + size; ++c) {
      for (index_t j = first; j < last; ++j) {
        for (index_t i = 0; i < n; ++i) A(i, j) += A(i, c) * conjugate(elements(j, c));
      }
    }
    const index_t moved = size == 2 && is_lower() ? k + 1 : k;
    const index_t other = std::abs(pivots[static_cast<std::size_t>(k)]) - 1;
    for (index_t i = 0; i < n; ++i) std::swap(A(i, moved), A(i, other));
    for (index_t j = 0; j < n; ++j) std::swap(A(moved, j), A(other, j));
  }
};

/// Pivots of blocks of 1 and 2.
inline std::vector<std::int64_t> random_pivots(index_t n, Uplo uplo, std::mt19937_64& random) {
  std::vector<std::int64_t> pivots(static_cast<std::size_t>(n));
  const bool is_lower = uplo == Uplo::lower;
  for (index_t done = 0; done < n;) {
    const index_t size = n - done > 1 && random() % 2 == 0 ? 2 : 1, left = n - done - size;
    const auto row = static_cast<index_t>(random() % static_cast<std::uint64_t>(left + 1));
    const index_t pivot = is_lower ? n - row : 1 + row;
    for (index_t i = done; i < done + size; ++i)
      pivots[static_cast<std::size_t>(is_lower ? i : n - 1 - i)] = size == 1 ? pivot : -pivot;
    done += size;
  }
  return pivots;
}

/// The largest sum of a column.
inline double one_norm(const kernels::Dense<AnyScalar>& A) {
  double largest = 0;
  for (index_t j = 0; j < A.cols; ++j) {
    double sum = 0;
    for (index_t i = 0; i < A.rows; ++i) sum += std::abs(A(i, j));
    if (!(sum <= largest)) largest = sum;
  }
  return largest;
}
inline kernels::Dense<AnyScalar> difference(kernels::Dense<AnyScalar> A, const kernels::Dense<AnyScalar>& B) {
  for (std::size_t i = 0; i < A.elements.size(); ++i) A.elements[i] -= B.elements[i];
  return A;
}

}  // namespace tessera::test
