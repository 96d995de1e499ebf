// Type-erased entries of the readable gemm.
#include "kernels/host/reference.hpp"

namespace tessera::kernels {

namespace {

template <Scalar T, class Accumulator>
void run(const Gemm& p) {
  reference_gemm<T, Accumulator>(p.op_x, p.op_y, p.m, p.n, p.k, scalar_cast<T>(p.alpha),
                                 reinterpret_cast<const T*>(p.X), p.ldx, reinterpret_cast<const T*>(p.Y), p.ldy,
                                 scalar_cast<T>(p.beta), reinterpret_cast<T*>(p.C), p.ldc);
}

}  // namespace

void reference_gemm(const Gemm& product) {
  dispatch(product.type, [&]<Scalar T>(T) { run<T, T>(product); });
}

void oracle_gemm(const Gemm& product) {
  dispatch(product.type, [&]<Scalar T>(T) { run<T, Wide<T>>(product); });
}

}  // namespace tessera::kernels
