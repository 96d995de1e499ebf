// Every product that updates a matrix, as C = alpha sum of L R^T + beta C: gemm, gemmt, symm, hemm and the rank updates. Operands are
// described by where their elements lie, so that one kernel serves all of them (gemm_block.hpp).
#pragma once

#include "core/level3.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::block {

/// What is read or written of a square matrix.
enum class Region : unsigned char { full, lower, upper };

constexpr Region region_of(Uplo uplo) { return uplo == Uplo::lower ? Region::lower : Region::upper; }

/// L (rows x k, by C's rows) or R (columns x k, by C's columns). Element (i, k) is at at[i * row + k * step].
template <class Stored>
struct ProductOperand {
  using E = Stored;
  const E* at = nullptr;
  index_t row = 0, step = 0;
  Region stored = Region::full;  ///< the rest is its mirror image, and is not read
  bool hermitian = false;        ///< the mirror image is conjugated, and the diagonal is real
  bool conjugate = false;        ///< the operand is the conjugate of all this
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
  bool has_factors = false;  ///< instead of alpha, which is one
  E alpha{}, beta{};
  bool reads_c = false;  ///< beta is not zero
  E* C = nullptr;
  index_t ldc = 0;
  Region updated = Region::full;
  bool real_diagonal = false;  ///< of C: its imaginary parts are not read, and become zero

  /// Nothing is read or written.
  bool does_nothing = false;
};

namespace detail {
/// op(M), by rows of op(M) or by its columns.
template <class E>
ProductOperand<E> operand_of(const void* matrix, index_t ld, Op op, bool by_rows) {
  const bool along_columns = (op == Op::no_trans) == by_rows;
  return {.at = static_cast<const E*>(matrix),
          .row = along_columns ? 1 : ld,
          .step = along_columns ? ld : 1,
          .conjugate = op == Op::conj_trans};
}
template <class E>
ProductOperand<E> conjugate_of(ProductOperand<E> operand) {
  operand.conjugate = !operand.conjugate;
  return operand;
}
}  // namespace detail

/// @pre no trmm or trsm; R and parts are those of the call's type
template <class R, int parts>
BlockProduct<Element<R, parts>> product_of(const Level3& call) {
  using E = Element<R, parts>;
  const auto element = [](const AnyScalar& value) {
    E e{};
    e.part[0] = static_cast<R>(value.real());
    if constexpr (parts == 2) e.part[1] = static_cast<R>(value.imag());
    return e;
  };
  const bool hermitian = call.is_hermitian();
  BlockProduct<E> product{.m = call.m,
                          .n = call.n,
                          .k = call.k,
                          .terms = call.only_scales() ? 0 : 1,
                          .alpha = element(call.alpha),
                          .beta = element(call.beta),
                          .reads_c = call.beta != AnyScalar(0),
                          .C = static_cast<E*>(call.C),
                          .ldc = call.ldc,
                          .updated = call.updates_triangle() ? region_of(call.uplo) : Region::full,
                          .real_diagonal = hermitian && call.is_rank_update(),
                          .does_nothing = call.only_scales() && call.beta == AnyScalar(1)};
  auto& [left, right, factor] = product.term[0];
  if (call.has_op_b()) {
    left = detail::operand_of<E>(call.A, call.lda, call.op_a, true);
    right = detail::operand_of<E>(call.B, call.ldb, call.op_b, false);
  } else if (call.is_rank_update()) {
    const auto with = [&](const ProductOperand<E>& other) { return hermitian ? detail::conjugate_of(other) : other; };
    const auto A = detail::operand_of<E>(call.A, call.lda, call.op_a, true);
    left = A;
    right = with(A);
    if (call.routine == Routine::syr2k || call.routine == Routine::her2k) {
      const auto B = detail::operand_of<E>(call.B, call.ldb, call.op_a, true);
      right = with(B);
      product.term[1] = {B, with(A), element(std::conj(call.alpha))};
      product.terms *= 2;
      if (hermitian) {
        factor = product.alpha;
        product.has_factors = true;
        product.alpha = element(1);
      }
    }
  } else {
    const bool on_left = call.side == Side::left;
    ProductOperand<E> symmetric{.at = static_cast<const E*>(call.A),
                                .row = 1,
                                .step = call.lda,
                                .stored = region_of(call.uplo),
                                .hermitian = hermitian};
    // By its columns a Hermitian matrix is its conjugate.
    symmetric.conjugate = hermitian && !on_left;
    const auto general = detail::operand_of<E>(call.B, call.ldb, Op::no_trans, !on_left);
    left = on_left ? symmetric : general;
    right = on_left ? general : symmetric;
    product.k = on_left ? call.m : call.n;
  }
  return product;
}

}  // namespace tessera::kernels::block
