// Every product that updates a matrix, as C = alpha sum of L R^T + beta C: gemm, gemmt, symm, hemm and the rank
// updates. Operands are described by where their elements lie, so that one kernel serves all of them (gemm_block.hpp).
#pragma once

#include <complex>

#include "calls/level3.hpp"
#include "kernels/block/argument_positions.hpp"
#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"
#include "kernels/block/product_problems.hpp"

namespace tessera::kernels::block {

/// The part of a square matrix that is read or written.
enum class Region : unsigned char { full, lower, upper };

constexpr Region region_of(Uplo uplo) { return uplo == Uplo::lower ? Region::lower : Region::upper; }

TESSERA_HOST_DEVICE constexpr bool is_in(Region region, index_t i, index_t j) {
  return region == Region::full || (region == Region::lower ? i >= j : i <= j);
}

/// An operand: L (C's rows x k) or R (C's columns x k). Element (i, k) is at at[i * row + k * step].
template <class Stored>
struct ProductOperand {
  using E = Stored;
  const E* at = nullptr;
  index_t row = 0, step = 0;
  Region stored = Region::full;  ///< the rest is its mirror image, and is not read
  bool hermitian = false;        ///< the mirror image is conjugated, and the diagonal is real
  bool conjugate = false;        ///< the operand is the conjugate of the above
};

template <class Stored>
struct BlockProduct {
  using E = Stored;
  struct Term {
    ProductOperand<E> left, right;
    E factor{};  ///< of the left operand, if `has_factors`
  };
  index_t m = 0, n = 0, k = 0;
  int terms = 0;  ///< none: C is only scaled
  Term term[2] = {};
  bool has_factors = false;  ///< the factors of the terms replace alpha
  E alpha{}, beta{};
  /// The routine takes the factor as real, so its imaginary part counts as zero. An infinite part of an element then
  /// does not make the other part a NaN.
  bool alpha_is_real = false, beta_is_real = false;
  bool reads_c = false;  ///< beta is not zero
  E* C = nullptr;
  index_t row = 1, column = 0;  ///< C(i, j) is at C[i * row + j * column]
  Region updated = Region::full;
  bool real_diagonal = false;  ///< of C: its imaginary parts are not read, and become zero

  /// Nothing is read or written.
  bool does_nothing = false;
};

/// The common part of the problems of a batch: everything but sizes and addresses.
template <class Stored>
struct ProductForm {
  using E = Stored;
  enum class Shape : unsigned char { two_operands, rank_k, rank_2k, symmetric };
  Shape shape = Shape::two_operands;
  bool square = false;  ///< C is n x n, and m is not used
  bool on_left = true;  ///< the symmetric matrix is the left operand
  bool hermitian = false;
  Region stored = Region::full;   ///< of the symmetric matrix
  Region updated = Region::full;  ///< of C
  bool transposed_a = false, conjugate_a = false, transposed_b = false, conjugate_b = false;
  E alpha{}, conjugate_alpha{}, beta{};
  bool alpha_is_zero = false, beta_is_zero = false, beta_is_one = false;
};

/// @pre no trmm or trsm; R and parts are those of the call's type
template <class R, int parts>
ProductForm<Element<R, parts>> product_form(const Level3& call) {
  using E = Element<R, parts>;
  using Form = ProductForm<E>;
  Form form;
  form.square = call.updates_triangle();
  form.on_left = call.side == Side::left;
  form.hermitian = call.is_hermitian();
  if (call.is_rank_update()) {
    const bool has_b = call.routine == Routine::syr2k || call.routine == Routine::her2k;
    form.shape = has_b ? Form::Shape::rank_2k : Form::Shape::rank_k;
  } else if (!call.has_op_b()) {
    form.shape = Form::Shape::symmetric;
    form.stored = region_of(call.uplo);
  }
  if (form.square) form.updated = region_of(call.uplo);
  form.transposed_a = call.op_a != Op::no_trans;
  form.conjugate_a = call.op_a == Op::conj_trans;
  form.transposed_b = call.op_b != Op::no_trans;
  form.conjugate_b = call.op_b == Op::conj_trans;
  form.alpha = element_from<R, parts>(call.alpha);
  form.conjugate_alpha = element_from<R, parts>(std::conj(call.alpha));
  form.beta = element_from<R, parts>(call.beta);
  form.alpha_is_zero = call.alpha == AnyScalar(0);
  form.beta_is_zero = call.beta == AnyScalar(0);
  form.beta_is_one = call.beta == AnyScalar(1);
  return form;
}

/// Which products a kernel can compute.
enum class Operands : unsigned char {
  plain,  ///< one term, of operands that are stored as a whole
  any
};

/// The storage of C: rows side by side, or any other.
enum class Result : unsigned char { by_columns, anyhow };

template <class E>
TESSERA_HOST_DEVICE constexpr Operands operands_of(const ProductForm<E>& form) {
  using Shape = typename ProductForm<E>::Shape;
  return form.shape == Shape::two_operands || form.shape == Shape::rank_k ? Operands::plain : Operands::any;
}

/// The position of the first bad argument, in the order in which the reference BLAS checks them; 0: none.
template <class E>
TESSERA_HOST_DEVICE int bad_argument(const ProductForm<E>& form, const ArgumentPositions& position,
                                     const ProductProblem<E>& problem) {
  using Shape = typename ProductForm<E>::Shape;
  const index_t m = problem.m, n = problem.n, k = problem.k;
  const bool has_k = form.shape != Shape::symmetric;
  const index_t rows_of_a = !has_k ? (form.on_left ? m : n) : form.transposed_a ? k : m;
  index_t rows_of_b = m;
  if (form.shape == Shape::two_operands) rows_of_b = form.transposed_b ? n : k;
  if (form.shape == Shape::rank_2k) rows_of_b = rows_of_a;
  if (!form.square && m < 0) return position.m;
  if (n < 0) return position.n;
  if (has_k && k < 0) return position.k;
  if (is_short_run(problem.lda, rows_of_a)) return position.lda;
  if (form.shape != Shape::rank_k && is_short_run(problem.ldb, rows_of_b)) return position.ldb;
  return is_short_run(problem.ldc, m) ? position.ldc : 0;
}

namespace detail {
/// op(M) as an operand, by its rows or by its columns.
template <class E>
TESSERA_HOST_DEVICE ProductOperand<E> operand_of(const E* matrix, index_t ld, bool transposed, bool conjugate,
                                                 bool by_rows) {
  const bool along_columns = transposed != by_rows;
  ProductOperand<E> operand;
  operand.at = matrix;
  operand.row = along_columns ? 1 : ld;
  operand.step = along_columns ? ld : 1;
  operand.conjugate = conjugate;
  return operand;
}
}  // namespace detail

/// @tparam kinds the kinds that the form may have; code for others is left out
/// @pre bad_argument() == 0
template <Operands kinds = Operands::any, class E>
TESSERA_HOST_DEVICE BlockProduct<E> product_of(const ProductForm<E>& form, const ProductProblem<E>& problem) {
  using Shape = typename ProductForm<E>::Shape;
  constexpr bool is_plain = kinds == Operands::plain;
  BlockProduct<E> product;
  product.m = problem.m;
  product.n = problem.n;
  const bool is_symmetric = !is_plain && form.shape == Shape::symmetric;
  const bool is_rank_2k = !is_plain && form.shape == Shape::rank_2k;
  product.k = !is_symmetric ? problem.k : form.on_left ? problem.m : problem.n;
  const bool only_scales = form.alpha_is_zero || product.k == 0;
  product.terms = only_scales ? 0 : is_rank_2k ? 2 : 1;
  product.alpha = form.alpha;
  product.beta = form.beta;
  product.reads_c = !form.beta_is_zero;
  product.C = problem.C;
  product.column = problem.ldc;
  product.updated = form.updated;
  product.real_diagonal = form.hermitian && form.square;
  product.alpha_is_real = product.real_diagonal;
  product.beta_is_real = product.real_diagonal || form.beta_is_one;
  product.does_nothing = only_scales && form.beta_is_one;
  auto& first = product.term[0];
  if (form.shape == Shape::two_operands) {
    first.left = detail::operand_of(problem.A, problem.lda, form.transposed_a, form.conjugate_a, true);
    first.right = detail::operand_of(problem.B, problem.ldb, form.transposed_b, form.conjugate_b, false);
  } else if (is_symmetric) {
    ProductOperand<E> symmetric = detail::operand_of(problem.A, problem.lda, false, false, true);
    symmetric.stored = form.stored;
    symmetric.hermitian = form.hermitian;
    // The columns of a Hermitian matrix, read as rows, give its conjugate.
    symmetric.conjugate = form.hermitian && !form.on_left;
    const auto general = detail::operand_of(problem.B, problem.ldb, false, false, !form.on_left);
    first.left = form.on_left ? symmetric : general;
    first.right = form.on_left ? general : symmetric;
  } else {
    const auto A = detail::operand_of(problem.A, problem.lda, form.transposed_a, form.conjugate_a, true);
    const auto B =
        !is_rank_2k ? A : detail::operand_of(problem.B, problem.ldb, form.transposed_a, form.conjugate_a, true);
    first.left = A;
    first.right = B;
    if (form.hermitian) first.right.conjugate = !first.right.conjugate;
    if (is_rank_2k) {
      auto& second = product.term[1];
      second.left = B;
      second.right = A;
      if (form.hermitian) {
        second.right.conjugate = !second.right.conjugate;
        product.has_factors = true;
        first.factor = form.alpha;
        second.factor = form.conjugate_alpha;
      }
    }
  }
  return product;
}

}  // namespace tessera::kernels::block
