// Type-erased entries of the readable gemm.
#include "kernels/host/reference.hpp"

namespace tessera::kernels {

namespace {

template <Scalar T, class Accumulator>
void run(const Level3& p) {
  reference_gemm<T, Accumulator>(p.op_a, p.op_b, p.m, p.n, p.k, scalar_cast<T>(p.alpha),
                                 static_cast<const T*>(p.A), p.lda, static_cast<const T*>(p.B), p.ldb,
                                 scalar_cast<T>(p.beta), static_cast<T*>(p.C), p.ldc);
}

}  // namespace

void reference_gemm(const Level3& product) {
  dispatch(product.type, [&]<Scalar T>(T) { run<T, T>(product); });
}

void oracle_gemm(const Level3& product) {
  dispatch(product.type, [&]<Scalar T>(T) { run<T, Wide<T>>(product); });
}

}  // namespace tessera::kernels
