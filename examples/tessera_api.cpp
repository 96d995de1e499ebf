// The C++ veneer: a context that closes itself, one gemm for the four types, exceptions instead of status codes.
#include <complex>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <tessera/lapack_batch.hpp>
#include <tessera/tessera.hpp>
#include <vector>

int main() {
  try {
    // Two host devices, so that this runs anywhere; without settings the GPUs are used if there are any.
    const tessera::Context context("TESSERA_DEVICES=host:2 TESSERA_HOST_DEVICE=memory=16MiB TESSERA_OFFLOAD=always");
    std::printf("%s", context.devices().c_str());

    using Complex = std::complex<double>;
    const std::int64_t n = 400;
    const auto count = static_cast<std::size_t>(n * n);
    // A = (1+i) J and B = (1-i) J with J all ones: every entry of A B is 2 n. C starts as i everywhere, and beta = 2.
    const std::vector<Complex> A(count, {1, 1}), B(count, {1, -1});
    std::vector<Complex> C(count, {0, 1});
    tessera::gemm(context, TESSERA_ROW_MAJOR, TESSERA_NO_TRANS, TESSERA_TRANS, n, n, n, Complex(1), A.data(), n,
                  B.data(), n, Complex(2), C.data(), n);
    const Complex expected(2.0 * static_cast<double>(n), 2);
    for (const Complex& entry : C) {
      if (entry != expected) {
        std::fprintf(stderr, "tessera_api: an entry is (%g,%g)\n", entry.real(), entry.imag());
        return 1;
      }
    }
    std::printf("zgemm: correct, on %d devices\n", context.last_job_stats().devices);
    std::printf("%s\n", context.last_job_json().c_str());

    // A thousand small products in one call: C_i = A_i B, where all have one B (stride 0), the identity.
    const std::int64_t order = 8, products = 1000, apart = order * order;
    std::vector<double> many(static_cast<std::size_t>(products * apart)), results(many.size());
    std::vector<double> identity(static_cast<std::size_t>(apart), 0);
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
    for (std::int64_t i = 0; i < order; ++i) identity[static_cast<std::size_t>(i * (order + 1))] = 1;
    tessera::gemm_batch_strided(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, order, order, order,
                                1.0, many.data(), order, apart, identity.data(), order, 0, 0.0, results.data(), order,
                                apart, products);
    if (results != many) {
      std::fprintf(stderr, "tessera_api: a product of the batch is wrong\n");
      return 1;
    }
    std::printf("dgemm_batch: correct, on %d devices\n", context.last_job_stats().devices);

    // And a thousand factorizations: A_i = L_i L_i^T, in place. A_i is four times the identity but for its first
    // element.
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = 4 * identity[i % identity.size()];
    many[0] = -4;  // the first one is not positive definite
    std::vector<int> info(static_cast<std::size_t>(products));
    tessera::potrf_batch_strided(context, TESSERA_LOWER, order, many.data(), order, apart, info.data(), products);
    if (info[0] != 1 || info[1] != 0 || many[static_cast<std::size_t>(apart)] != 2) {
      std::fprintf(stderr, "tessera_api: a factorization of the batch is wrong\n");
      return 1;
    }
    std::printf("dpotrf_batch: correct, on %d devices\n", context.last_job_stats().devices);

    try {
      tessera::gemm(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, n, n, n, Complex(1), A.data(),
                    n - 1, B.data(), n, Complex(0), C.data(), n);
      return 1;  // lda is too small and must have been refused
    } catch (const tessera::StatusError& error) {
      std::printf("refused: %s (argument %d)\n", error.what(), error.position());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera_api: %s\n", error.what());
    return 1;
  }
  return 0;
}
