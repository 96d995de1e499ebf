// Products of square matrices with vectors, of which checks of results are made: in complex double precision, column by
// column, on all processors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <thread>
#include <vector>

#include "core/scalar.hpp"

namespace tessera::bench {

using Vector = std::vector<AnyScalar>;

/// The elements of a matrix that are used. Triangles have their diagonal, or ones in place of it. One triangle of a
/// Hermitian matrix is read.
enum class Part { whole, lower, unit_lower, upper, hermitian_lower, hermitian_upper };

constexpr Part triangle_of(Uplo uplo) { return uplo == Uplo::lower ? Part::lower : Part::upper; }
constexpr Part hermitian_of(Uplo uplo) { return uplo == Uplo::lower ? Part::hermitian_lower : Part::hermitian_upper; }
constexpr bool is_hermitian(Part part) { return part == Part::hermitian_lower || part == Part::hermitian_upper; }

/// Rows of a column that are used: from the first one to the one before the last.
constexpr std::size_t first_row(Part part, std::size_t column) {
  return part == Part::whole || part == Part::upper || part == Part::hermitian_upper ? 0 : column;
}
constexpr std::size_t last_row(Part part, std::size_t column, std::size_t n) {
  return part == Part::upper || part == Part::hermitian_upper ? column + 1 : n;
}

/// work(column, thread) for all columns.
template <class Work>
void for_columns(std::size_t n, std::size_t threads, const Work& work) {
  std::vector<std::thread> others;
  const auto share = [&](std::size_t thread) {
    for (std::size_t j = thread; j < n; j += threads) work(j, thread);
  };
  for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(share, thread);
  share(0);
  for (std::thread& thread : others) thread.join();
}
inline std::size_t threads_for(std::size_t n) {
  constexpr std::size_t least = 256;  // columns that are worth threads
  return n < least ? 1 : std::max(1u, std::thread::hardware_concurrency());
}

/// M x, or M^H x.
/// @param element  (i, j): what converts to AnyScalar, of the part that is used
template <class Element>
Vector product(Part part, const Element& element, const Vector& x, bool adjoint = false) {
  const std::size_t n = x.size(), threads = threads_for(n);
  std::vector<Vector> sums(threads, Vector(n));
  for_columns(n, threads, [&](std::size_t j, std::size_t thread) {
    Vector& y = sums[thread];
    AnyScalar dot = 0;
    for (std::size_t i = first_row(part, j); i < last_row(part, j, n); ++i) {
      const AnyScalar value = part == Part::unit_lower && i == j ? AnyScalar(1) : AnyScalar(element(i, j));
      if (!adjoint || is_hermitian(part)) y[i] += value * x[j];
      if (is_hermitian(part) ? i != j : adjoint) dot += std::conj(value) * x[i];
    }
    y[j] += dot;
  });
  for (std::size_t t = 1; t < threads; ++t) {
    for (std::size_t i = 0; i < n; ++i) sums[0][i] += sums[t][i];
  }
  return std::move(sums[0]);
}

inline double norm1(const Vector& v) {
  double sum = 0;
  for (const AnyScalar& x : v) sum += std::abs(x);
  return sum;
}
inline double largest_of(const Vector& v) {
  double largest = 0;
  for (const AnyScalar& x : v) largest = std::max(largest, std::abs(x));
  return largest;
}
/// The largest sum of a column's absolute values.
template <class Element>
double norm1(Part part, const Element& element, std::size_t n) {
  const auto size = [&](std::size_t i, std::size_t j) { return std::abs(AnyScalar(element(i, j))); };
  return largest_of(product(part, size, Vector(n, 1), true));
}
/// |a - b|_1
inline double distance1(Vector a, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm1(a);
}

}  // namespace tessera::bench
