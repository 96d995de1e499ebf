// Problems of a batch in the memory of a device: what is measured, where each problem has its matrices, what is in them, and
// what their roof is.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bench/frame/device_timer.hpp"
#include "calls/level3.hpp"

namespace tessera::bench {

using Sizes = std::array<index_t, 3>;  ///< m, n, k

/// The batch that one row measures.
struct Case {
  Level3 common;      ///< variant and factors
  std::string shape;  ///< "square", or the size that is fixed: "k=16"; "one size": all problems are alike
  index_t x = 0;      ///< the largest order that can be drawn, or the order of all
  std::vector<Sizes> sizes;

  bool is_one_size() const { return shape == one_size; }
  static constexpr const char* one_size = "one size";
};

enum Operand : std::size_t { in_a, in_b, in_c };

inline StoredShape shape_of(Operand operand, const Level3& call) {
  if (operand == in_a) return shape_of_a(call);
  if (operand == in_c) return {call.updates_triangle() ? call.n : call.m, call.n};
  return call.is_triangular() ? StoredShape{} : shape_of_b(call);
}

/// Where each problem has its matrices: one behind the other, in elements from the beginning of each operand's memory.
struct Layout {
  std::vector<Level3> calls;
  std::array<std::vector<index_t>, 3> begins;
  Sizes elements = {};
};

/// @param ld_multiple  leading dimensions are rounded up to a multiple of so many elements
inline Layout laid_out(const Case& of, index_t ld_multiple) {
  Layout layout;
  for (const auto& [m, n, k] : of.sizes) {
    Level3 call = of.common;
    call.m = m, call.n = n, call.k = k;
    const std::array<index_t*, 3> lds = {&call.lda, &call.ldb, &call.ldc};
    for (const Operand operand : {in_a, in_b, in_c}) {
      const StoredShape shape = shape_of(operand, call);
      *lds[operand] = (std::max<index_t>(shape.rows, 1) + ld_multiple - 1) / ld_multiple * ld_multiple;
      layout.begins[operand].push_back(layout.elements[operand]);
      layout.elements[operand] += *lds[operand] * shape.cols;
    }
    layout.calls.push_back(call);
  }
  return layout;
}

/// Each operand is read once, and C, or of triangular routines X, is read and written. Of triangles, triangles.
inline double compulsory_bytes(const Level3& call) {
  const auto product = [](index_t rows, index_t cols) { return static_cast<double>(rows) * static_cast<double>(cols); };
  const auto triangle = [&](index_t order) { return product(order, order + 1) / 2; };
  const StoredShape a = shape_of(in_a, call), b = shape_of(in_b, call), c = shape_of(in_c, call);
  const double elements_of_a = call.has_k() ? product(a.rows, a.cols) : triangle(a.rows);
  const double elements_of_c = call.updates_triangle() ? triangle(c.rows) : product(c.rows, c.cols);
  return static_cast<double>(element_bytes(call.type)) * (elements_of_a + product(b.rows, b.cols) + 2 * elements_of_c);
}

template <Scalar T>
struct Memory {
  /// A second matrix of random elements begins so far behind the first one.
  static constexpr index_t shift = 1000003;

  Memory(const Sizes& elements, double scale_of_triangles)
      : A(count(elements[in_a])),
        C(count(elements[in_c])),
        apart(count(elements[in_c])),
        start(count(elements[in_c])),
        triangles(count(elements[in_a])),
        B(count(std::max(elements[in_a], elements[in_b]) + shift)) {
    fill_random<T>(start.get(), elements[in_c], 1);
    fill_random<T>(triangles.get(), elements[in_a], scale_of_triangles, true);
    fill_random<T>(B.get(), std::max(elements[in_a], elements[in_b]) + shift, 1, true, 777);
  }

  DeviceArray<T> A, C;
  DeviceArray<T> apart;      ///< as large as C: what is not in place, and results to compare with
  DeviceArray<T> start;      ///< of C; real, so that Hermitian matrices have a real diagonal
  DeviceArray<T> triangles;  ///< of A, without a diagonal
  DeviceArray<T> B;          ///< and, from `shift` on, the A of products

 private:
  static std::size_t count(index_t elements) { return static_cast<std::size_t>(std::max<index_t>(elements, 1)); }
};

/// The problems of a case in memory, and the arrays that tell of them.
struct Problems {
  std::vector<Level3> calls;  ///< with addresses; trmm in place
  std::array<std::vector<index_t>, 3> begins;
  Sizes elements = {}, bounds = {};
  std::array<DeviceArray<int>, 3> sizes, lds;
  std::array<DeviceArray<void*>, 3> matrices;
  DeviceArray<int> info;

  index_t count() const { return static_cast<index_t>(calls.size()); }
  const Level3& common() const { return calls.front(); }
};

template <Scalar T>
Problems placed(Layout layout, const Memory<T>& memory) {
  Problems problems;
  problems.calls = std::move(layout.calls);
  problems.begins = std::move(layout.begins);
  problems.elements = layout.elements;
  const std::size_t count = problems.calls.size();
  std::array<std::vector<int>, 3> sizes, lds;
  std::array<std::vector<void*>, 3> matrices;
  for (std::size_t i = 0; i < count; ++i) {
    Level3& call = problems.calls[i];
    T* const A = memory.A.get() + problems.begins[in_a][i];
    T* const B = memory.B.get() + problems.begins[in_b][i];
    T* const C = memory.C.get() + problems.begins[in_c][i];
    call.A = A, call.B = B, call.C = C;
    if (call.routine == Routine::trmm) call.B = C, call.ldb = call.ldc;
    const Sizes size = {call.m, call.n, call.k}, ld = {call.lda, call.ldb, call.ldc};
    const std::array<void*, 3> matrix = {A, B, C};
    for (std::size_t j = 0; j < 3; ++j) {
      sizes[j].push_back(static_cast<int>(size[j]));
      lds[j].push_back(static_cast<int>(ld[j]));
      matrices[j].push_back(matrix[j]);
      problems.bounds[j] = std::max(problems.bounds[j], size[j]);
    }
  }
  for (std::size_t j = 0; j < 3; ++j) {
    problems.sizes[j] = DeviceArray<int>(sizes[j]);
    problems.lds[j] = DeviceArray<int>(lds[j]);
    problems.matrices[j] = DeviceArray<void*>(matrices[j]);
  }
  problems.info = DeviceArray<int>(count);
  return problems;
}

}  // namespace tessera::bench
