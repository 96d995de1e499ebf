// One loop nest: the textbook's product, whose elements are converted to single precision when they are read.
#include "kernels/reference/reference_half.hpp"

#include <complex>
#include <type_traits>

#include "kernels/reference/reference_batch.hpp"

namespace tessera::kernels {
namespace {

/// The type to which elements are converted.
template <class E>
using Single = std::conditional_t<E::parts == 1, float, std::complex<float>>;

template <class E>
Single<E> single(const E& element) {
  if constexpr (E::parts == 1)
    return to_single(element.part[0]);
  else
    return {to_single(element.part[0]), to_single(element.part[1])};
}

template <class E>
E rounded(Single<E> value) {
  using R = typename E::R;
  if constexpr (E::parts == 1)
    return {{rounded_to<R>(value)}};
  else
    return {{rounded_to<R>(value.real()), rounded_to<R>(value.imag())}};
}

// Written in parts: the operator of std::complex replaces NaNs in both parts by infinities.
float product(float a, float b) { return a * b; }
std::complex<float> product(std::complex<float> a, std::complex<float> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// Element (row, column) of op(matrix).
template <class E>
Single<E> element_of(Op op, const void* matrix, index_t ld, index_t row, index_t column) {
  const auto* const begin = static_cast<const E*>(matrix);
  const Single<E> value = single(begin[op == Op::no_trans ? row + column * ld : column + row * ld]);
  if constexpr (E::parts == 2) {
    if (op == Op::conj_trans) return std::conj(value);
  }
  return value;
}

template <class E>
void multiply(const Level3& call) {
  using S = Single<E>;
  const S alpha = scalar_cast<S>(call.alpha), beta = scalar_cast<S>(call.beta);
  for (index_t j = 0; j < call.n; ++j) {
    for (index_t i = 0; i < call.m; ++i) {
      S value{};
      if (!call.only_scales()) {
        S sum{};
        for (index_t l = 0; l < call.k; ++l)
          sum += product(element_of<E>(call.op_a, call.A, call.lda, i, l),
                         element_of<E>(call.op_b, call.B, call.ldb, l, j));
        value = product(alpha, sum);
      }
      E& result = static_cast<E*>(call.C)[i + j * call.ldc];
      if (beta != S(0)) value += beta == S(1) ? single(result) : product(beta, single(result));
      result = rounded<E>(value);
    }
  }
}

}  // namespace

void reference_half_batch(const HalfBatch& batch) {
  dispatch(batch.stored, [&]<class E>(E) {
    for_each_good_problem(batch.products, sizeof(E), [](const Level3& problem) { multiply<E>(problem); });
  });
}

}  // namespace tessera::kernels
