// cuBLAS, opened at run time. The plugin is not linked with it: loading it takes as long as half a context, and happens
// while contexts are created. It is never closed.
#pragma once

#include <cublas_v2.h>

#include <cstdint>
#include <string>

#include "calls/level3.hpp"

namespace tessera::kernels::cuda {

#if CUBLAS_VERSION >= 120000
using cublas_index = std::int64_t;
#define TESSERA_CUBLAS_ROUTINE(name) cublas##name##_64
#else
using cublas_index = int;
#define TESSERA_CUBLAS_ROUTINE(name) cublas##name
#endif

#define TESSERA_CUBLAS_ROUTINES_OF(X, letter) \
  X(letter##gemm)                             \
  X(letter##gemmBatched) X(letter##gemmStridedBatched) X(letter##symm) X(letter##syrk) X(letter##syr2k) X(letter##trmm)
#define TESSERA_CUBLAS_HERMITIAN_ROUTINES_OF(X, letter) X(letter##hemm) X(letter##herk) X(letter##her2k)
#define TESSERA_CUBLAS_ROUTINES(X)           \
  TESSERA_CUBLAS_ROUTINES_OF(X, S)           \
  TESSERA_CUBLAS_ROUTINES_OF(X, D)           \
  TESSERA_CUBLAS_ROUTINES_OF(X, C)           \
  TESSERA_CUBLAS_ROUTINES_OF(X, Z)           \
  TESSERA_CUBLAS_HERMITIAN_ROUTINES_OF(X, C) \
  TESSERA_CUBLAS_HERMITIAN_ROUTINES_OF(X, Z) X(GemmStridedBatchedEx)
#define TESSERA_CUBLAS_SERVICES(X) \
  X(Create) X(Destroy) X(SetStream) X(SetWorkspace) X(SetPointerMode) X(SetMathMode) X(GetStatusString)

/// The functions in use, by their names without "cublas".
struct CublasLibrary {
#define TESSERA_ROUTINE_MEMBER(name) decltype(&TESSERA_CUBLAS_ROUTINE(name)) name = nullptr;
#define TESSERA_SERVICE_MEMBER(name) decltype(&cublas##name) name = nullptr;
  TESSERA_CUBLAS_ROUTINES(TESSERA_ROUTINE_MEMBER)
  TESSERA_CUBLAS_SERVICES(TESSERA_SERVICE_MEMBER)
#undef TESSERA_ROUTINE_MEMBER
#undef TESSERA_SERVICE_MEMBER
};

/// Loads the library at the first call, on the calling thread. Workers call it only afterwards. Thread-safe.
/// @throws NotAvailable
const CublasLibrary& cublas();

/// For real types the conjugate transpose is the transpose; some functions of cuBLAS accept only the latter.
inline cublasOperation_t operation_of(Op op, ScalarType type) {
  if (op == Op::no_trans) return CUBLAS_OP_N;
  return op == Op::conj_trans && is_complex(type) ? CUBLAS_OP_C : CUBLAS_OP_T;
}

/// "cuda:1: dgemm: the GPU program failed to execute (13)"
std::string describe_status(int ordinal, const char* what, cublasStatus_t status);

}  // namespace tessera::kernels::cuda
