// A product of matrices of 16-bit numbers, C = alpha L R^T + beta C, as thread blocks see it. Operands are sets of
// lines: L's along C's rows, R's along its columns. Also batches of such products, as product_batch.hpp has for the
// BLAS types.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/half.hpp"
#include "kernels/block/argument_positions.hpp"
#include "kernels/block/device_code.hpp"
#include "kernels/block/product_problems.hpp"
#include "kernels/half_batch.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::block {

/// A number in single precision, with as many parts as the elements have.
template <int parts>
struct SingleElement {
  float part[parts];
};

/// An operand, L or R. Element (line, step) is at at[line * next_line + step * next_step]; one of the two strides is 1.
template <class E>
struct HalfOperand {
  const E* at = nullptr;
  index_t next_line = 0, next_step = 0;
  bool lines_are_adjacent = false;  ///< next_line is 1; else next_step is 1
  bool conjugate = false;
};

template <class Stored>
struct HalfProduct {
  using E = Stored;
  using Factor = SingleElement<E::parts>;
  index_t m = 0, n = 0, k = 0;  ///< k = 0: C is at most scaled, and the operands need not exist
  HalfOperand<E> left, right;
  Factor alpha{}, beta{};
  bool reads_c = false;      ///< beta is not 0
  bool beta_is_one = false;  ///< C is added as it is: an infinite part does not make the other one a NaN
  E* C = nullptr;
  index_t ldc = 0;
  bool does_nothing = false;  ///< C stays as it is
};

/// The addresses of a product's matrices.
template <class E>
struct HalfMatrices {
  const E* left = nullptr;
  const E* right = nullptr;
  E* C = nullptr;
};
template <class E>
TESSERA_HOST_DEVICE HalfMatrices<E> matrices_of(const HalfProduct<E>& product) {
  return {product.left.at, product.right.at, product.C};
}

/// The lengths and distances of all contiguous runs, combined by OR. A load of 2 or 4 elements needs multiples of 2 or
/// 4.
template <class E>
TESSERA_HOST_DEVICE unsigned bits_of_runs(const HalfProduct<E>& product) {
  index_t bits = product.ldc | product.m;
  if (product.k > 0) {
    const HalfOperand<E>&left = product.left, &right = product.right;
    bits |= left.lines_are_adjacent ? left.next_step : left.next_line | product.k;
    bits |= right.lines_are_adjacent ? right.next_step | product.n : right.next_line | product.k;
  }
  return static_cast<unsigned>(bits);
}

/// Elements per load that suit all of a product: 4, 2 or 1. @param bits bits_of_runs()
template <class E>
TESSERA_HOST_DEVICE int elements_together(const HalfProduct<E>& product, unsigned bits, const HalfMatrices<E>& at) {
  const auto place = [](const E* matrix) {
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(matrix)) / static_cast<unsigned>(sizeof(E));
  };
  bits |= place(at.C);
  if (product.k > 0) bits |= place(at.left) | place(at.right);
  return bits % 4 == 0 ? 4 : bits % 2 == 0 ? 2 : 1;
}

/// The common part of the problems of a batch.
template <int parts>
struct HalfForm {
  bool transposed_a = false, conjugate_a = false, transposed_b = false, conjugate_b = false;
  SingleElement<parts> alpha{}, beta{};
  bool alpha_is_zero = false, beta_is_zero = false, beta_is_one = false;
};

/// The position of the first bad argument, in the order in which the reference BLAS checks them; 0: none.
template <int parts, class E>
TESSERA_HOST_DEVICE int bad_argument(const HalfForm<parts>& form, const ArgumentPositions& position,
                                     const ProductProblem<E>& problem) {
  if (problem.m < 0) return position.m;
  if (problem.n < 0) return position.n;
  if (problem.k < 0) return position.k;
  if (is_short_run(problem.lda, form.transposed_a ? problem.k : problem.m)) return position.lda;
  if (is_short_run(problem.ldb, form.transposed_b ? problem.n : problem.k)) return position.ldb;
  return is_short_run(problem.ldc, problem.m) ? position.ldc : 0;
}

namespace detail {
template <class E>
TESSERA_HOST_DEVICE HalfOperand<E> half_operand(const E* matrix, index_t ld, bool lines_are_adjacent, bool conjugate) {
  HalfOperand<E> operand;
  operand.at = matrix;
  operand.next_line = lines_are_adjacent ? 1 : ld;
  operand.next_step = lines_are_adjacent ? ld : 1;
  operand.lines_are_adjacent = lines_are_adjacent;
  operand.conjugate = conjugate;
  return operand;
}
}  // namespace detail

/// @pre bad_argument() == 0
template <class E>
TESSERA_HOST_DEVICE HalfProduct<E> product_of(const HalfForm<E::parts>& form, const ProductProblem<E>& problem) {
  HalfProduct<E> product;
  product.m = problem.m;
  product.n = problem.n;
  product.k = form.alpha_is_zero || problem.m == 0 || problem.n == 0 ? 0 : problem.k;
  product.left = detail::half_operand(problem.A, problem.lda, !form.transposed_a, form.conjugate_a);
  product.right = detail::half_operand(problem.B, problem.ldb, form.transposed_b, form.conjugate_b);
  product.alpha = form.alpha;
  product.beta = form.beta;
  product.reads_c = !form.beta_is_zero;
  product.beta_is_one = form.beta_is_one;
  product.C = problem.C;
  product.ldc = problem.ldc;
  product.does_nothing = product.m == 0 || product.n == 0 || (product.k == 0 && form.beta_is_one);
  return product;
}

/// alpha sum + beta before, in single precision. @param before the element of C, if it is read
template <class E>
TESSERA_DEVICE SingleElement<E::parts> updated(const HalfProduct<E>& product, const SingleElement<E::parts>& sum,
                                               const SingleElement<E::parts>& before) {
  const auto& alpha = product.alpha;
  const auto& beta = product.beta;
  SingleElement<E::parts> value;
  if constexpr (E::parts == 1) {
    value.part[0] = product.k > 0 ? alpha.part[0] * sum.part[0] : 0.0F;
    if (product.reads_c) value.part[0] += beta.part[0] * before.part[0];
  } else {
    value.part[0] = product.k > 0 ? alpha.part[0] * sum.part[0] - alpha.part[1] * sum.part[1] : 0.0F;
    value.part[1] = product.k > 0 ? alpha.part[0] * sum.part[1] + alpha.part[1] * sum.part[0] : 0.0F;
    if (product.reads_c && product.beta_is_one) {
      value.part[0] += before.part[0];
      value.part[1] += before.part[1];
    } else if (product.reads_c) {
      value.part[0] += beta.part[0] * before.part[0] - beta.part[1] * before.part[1];
      value.part[1] += beta.part[0] * before.part[1] + beta.part[1] * before.part[0];
    }
  }
  return value;
}

/// Many products of one form.
template <class Stored>
struct HalfProducts : ProductProblems<Stored> {
  using typename ProductProblems<Stored>::Problem;
  using ProductProblems<Stored>::words;
  HalfForm<Stored::parts> form = {};
  ArgumentPositions positions = {};
  bool is_of_one_size = false;  ///< problems differ in their addresses only

  /// The words that hold the matrices' addresses.
  enum : int { A = 3, B = 5, C = 7 };
  /// The problem that all of the batch share, without addresses. @pre is_of_one_size
  Problem common_problem() const {
    index_t of_problem[words] = {};
    for (const int w : {0, 1, 2, A + 1, B + 1, C + 1}) of_problem[w] = this->word[w].first;
    return this->problem_of(of_problem);
  }
};

/// Host code. @pre E is the batch's stored type
template <class E>
HalfProducts<E> half_products(const HalfBatch& batch) {
  const Level3Batch& given = batch.products;
  const auto factor = [](const AnyScalar& value) {
    SingleElement<E::parts> of_parts;
    of_parts.part[0] = static_cast<float>(value.real());
    if constexpr (E::parts == 2) of_parts.part[1] = static_cast<float>(value.imag());
    return of_parts;
  };
  HalfProducts<E> made;
  auto& form = made.form;
  form.transposed_a = given.common.op_a != Op::no_trans;
  form.conjugate_a = given.common.op_a == Op::conj_trans;
  form.transposed_b = given.common.op_b != Op::no_trans;
  form.conjugate_b = given.common.op_b == Op::conj_trans;
  form.alpha = factor(given.common.alpha);
  form.beta = factor(given.common.beta);
  form.alpha_is_zero = given.common.alpha == AnyScalar(0);
  form.beta_is_zero = given.common.beta == AnyScalar(0);
  form.beta_is_one = given.common.beta == AnyScalar(1);
  made.positions = argument_positions(Routine::gemm);
  made.take(given, false);
  made.is_of_one_size = !given.has_sizes_of_each();
  return made;
}

}  // namespace tessera::kernels::block
