// The BLAS symbols of the drop-in library, in the Fortran and the CBLAS interface: arguments are checked here as the reference
// does, and the problem goes down to libtessera.so in column-major form. One line of core/routines.def makes two symbols.
// Integers are 32-bit (LP64). Constructors do nothing; nothing is loaded before the first call.
#include <complex>
#include <cstdint>
#include <type_traits>

#include "blas_api/arguments.hpp"
#include "blas_api/bridge.hpp"
#include "blas_api/drop_in/error_exit.hpp"
#include "core/scalar.hpp"

namespace tessera::api {
namespace {

using blas_int = std::int32_t;

/// Real scalars are passed by value in C, complex ones and their arrays by untyped address.
template <Scalar T>
using CblasScalar = std::conditional_t<std::floating_point<T>, T, const void*>;
template <Scalar T>
using CblasArray = std::conditional_t<std::floating_point<T>, T, void>;

template <Scalar T>
T cblas_value(CblasScalar<T> scalar) {
  if constexpr (std::floating_point<T>) {
    return scalar;
  } else {
    return *static_cast<const T*>(scalar);
  }
}

void* find_next_gemm() { return next_definition("dgemm_"); }

template <Scalar T>
constexpr RoutineName gemm_name = {letter(scalar_type_of<T>()), "gemm"};

/// @pre `a` passed first_bad_argument
template <Scalar T>
void compute_gemm(const Arguments& a, T alpha, const void* A, const void* B, T beta, void* C) {
  tessera_private_gemm({.type = scalar_type_of<T>(),
                        .op_a = *a.op_a,
                        .op_b = *a.op_b,
                        .m = a.m,
                        .n = a.n,
                        .k = a.k,
                        .alpha = alpha,
                        .A = A,
                        .lda = a.lda,
                        .B = B,
                        .ldb = a.ldb,
                        .beta = beta,
                        .C = C,
                        .ldc = a.ldc},
                       find_next_gemm);
}

template <Scalar T>
void gemm_from_fortran(const char* transa, const char* transb, const blas_int* m, const blas_int* n, const blas_int* k,
                       const T* alpha, const T* A, const blas_int* lda, const T* B, const blas_int* ldb, const T* beta,
                       T* C, const blas_int* ldc) {
  const Arguments arguments = {op_from_letter(*transa), op_from_letter(*transb), *m, *n, *k, *lda, *ldb, *ldc};
  if (const int bad = first_bad_argument(gemm_signature, arguments); bad != 0) {
    report_fortran(gemm_name<T>, bad);
    return;
  }
  compute_gemm<T>(arguments, *alpha, A, B, *beta, C);
}

template <Scalar T>
void gemm_from_cblas(int layout, int transa, int transb, blas_int m, blas_int n, blas_int k, CblasScalar<T> alpha,
                     const void* A, blas_int lda, const void* B, blas_int ldb, CblasScalar<T> beta, void* C,
                     blas_int ldc) {
  constexpr RoutineName name = gemm_name<T>;
  const std::optional<Layout> order = layout_from_cblas(layout);
  if (!order) return report_cblas_enum(name, false, 1, 0, "layout", layout);
  const bool row_major = *order == Layout::row_major;
  const std::optional<Op> op_a = op_from_cblas(transa);
  const std::optional<Op> op_b = op_from_cblas(transb);
  if (!op_a) return report_cblas_enum(name, row_major, 2, row_major ? 2 : 1, "TransA", transa);
  // The reference says 2 for a bad TransB in row-major order.
  if (!op_b) return report_cblas_enum(name, row_major, row_major ? 2 : 3, row_major ? 1 : 2, "TransB", transb);

  // Row-major: C^T = op(B)^T op(A)^T, and the transpose of a row-major matrix is its column-major reading.
  const Arguments arguments =
      row_major ? Arguments{op_b, op_a, n, m, k, ldb, lda, ldc} : Arguments{op_a, op_b, m, n, k, lda, ldb, ldc};
  if (const int bad = first_bad_argument(gemm_signature, arguments); bad != 0) {
    return report_cblas(name, row_major, bad);
  }
  compute_gemm<T>(arguments, cblas_value<T>(alpha), row_major ? B : A, row_major ? A : B, cblas_value<T>(beta), C);
}

}  // namespace
}  // namespace tessera::api

#define TESSERA_SYMBOL extern "C" __attribute__((visibility("default"))) void

// The Fortran compiler's hidden string lengths come last and are not looked at.
#define TESSERA_SYMBOLS_gemm(letter, T)                                                                                \
  TESSERA_SYMBOL letter##gemm_(const char* transa, const char* transb, const std::int32_t* m, const std::int32_t* n,   \
                               const std::int32_t* k, const T* alpha, const T* A, const std::int32_t* lda, const T* B, \
                               const std::int32_t* ldb, const T* beta, T* C, const std::int32_t* ldc) {                \
    tessera::api::gemm_from_fortran<T>(transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);                  \
  }                                                                                                                    \
  TESSERA_SYMBOL cblas_##letter##gemm(                                                                                 \
      int layout, int transa, int transb, std::int32_t m, std::int32_t n, std::int32_t k,                              \
      tessera::api::CblasScalar<T> alpha, const tessera::api::CblasArray<T>* A, std::int32_t lda,                      \
      const tessera::api::CblasArray<T>* B, std::int32_t ldb, tessera::api::CblasScalar<T> beta,                       \
      tessera::api::CblasArray<T>* C, std::int32_t ldc) {                                                              \
    tessera::api::gemm_from_cblas<T>(layout, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);            \
  }
#define TESSERA_ROUTINE(routine, letter, T) TESSERA_SYMBOLS_##routine(letter, T)
#include "core/routines.def"
#undef TESSERA_ROUTINE

/// Tells the search for a CPU BLAS that this library is none.
extern "C" {
extern __attribute__((visibility("default"))) const int tessera_blas_marker;
const int tessera_blas_marker = 1;
}
