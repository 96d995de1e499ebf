// The readable Level-3 BLAS. All others are compared with it, and it computes if no CPU BLAS can. It follows the
// reference BLAS (netlib) in which elements are read and written: see Level3. If alpha and k ask for no product and
// beta is 1, nothing at all is done. A diagonal that is taken as real then keeps its imaginary parts.
#pragma once

#include <complex>

#include "calls/level3.hpp"
#include "core/scalar.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

namespace detail {
template <class T>
struct WideOf {
  using type = long double;
};
template <class Real>
struct WideOf<std::complex<Real>> {
  using type = std::complex<long double>;
};
}  // namespace detail

/// The accumulator type of an oracle.
template <Scalar T>
using Wide = typename detail::WideOf<T>::type;

/// Computes any of the routines, in the precision of its type. m, n, k may be 0.
void reference_level3(const Level3& call);

/// Computes the same, accumulated in long double and rounded once.
void oracle_level3(const Level3& call);

/// gemm on typed operands. Accumulator is T, or Wide<T> for an oracle.
template <Scalar T, class Accumulator = T>
void reference_gemm(Op op_a, Op op_b, index_t m, index_t n, index_t k, T alpha, const T* A, index_t lda, const T* B,
                    index_t ldb, T beta, T* C, index_t ldc) {
  const Level3 call{.type = scalar_type_of<T>(),
                    .op_a = op_a,
                    .op_b = op_b,
                    .m = m,
                    .n = n,
                    .k = k,
                    .alpha = AnyScalar(alpha),
                    .A = A,
                    .lda = lda,
                    .B = B,
                    .ldb = ldb,
                    .beta = AnyScalar(beta),
                    .C = C,
                    .ldc = ldc};
  if constexpr (std::same_as<Accumulator, T>) {
    reference_level3(call);
  } else {
    static_assert(std::same_as<Accumulator, Wide<T>>);
    oracle_level3(call);
  }
}
inline void reference_gemm(const Level3& call) { reference_level3(call); }

/// C += factor * X, see Addition.
void reference_add(const Addition& addition);
/// See Mirroring.
void reference_mirror(const Mirroring& tile);

}  // namespace tessera::kernels
