// The dense part of cuSOLVER, opened at run time as cuBLAS is: by the first factorization that needs it, on its
// caller's thread. It is never closed.
#pragma once

#include <cusolverDn.h>

#include <string>

#include "core/scalar.hpp"

namespace tessera::kernels::cuda {

#define TESSERA_CUSOLVER_ROUTINES_OF(X, letter) \
  X(letter##getrf) X(letter##getrf_bufferSize) X(letter##geqrf) X(letter##geqrf_bufferSize)
#define TESSERA_CUSOLVER_FUNCTIONS(X) \
  X(Create)                           \
  X(Destroy)                          \
  X(SetStream)                        \
  TESSERA_CUSOLVER_ROUTINES_OF(X, S)  \
  TESSERA_CUSOLVER_ROUTINES_OF(X, D)  \
  TESSERA_CUSOLVER_ROUTINES_OF(X, C)  \
  TESSERA_CUSOLVER_ROUTINES_OF(X, Z)

/// Routines for whole problems (dense_calls.hpp). Older versions lack some of them.
#define TESSERA_CUSOLVER_SIZED(X, name) X(name) X(name##_bufferSize)
#define TESSERA_CUSOLVER_PROBLEMS_OF(X, letter, symmetric, orthogonal) \
  TESSERA_CUSOLVER_SIZED(X, letter##symmetric##gvd)                    \
  TESSERA_CUSOLVER_SIZED(X, letter##orthogonal##gqr)                   \
  TESSERA_CUSOLVER_SIZED(X, letter##orthogonal##mqr)                   \
  TESSERA_CUSOLVER_SIZED(X, letter##orthogonal##mtr)                   \
  TESSERA_CUSOLVER_SIZED(X, letter##potri)
#define TESSERA_CUSOLVER_PROBLEMS(X)         \
  X(CreateParams)                            \
  X(DestroyParams)                           \
  TESSERA_CUSOLVER_SIZED(X, Xsyevd)          \
  TESSERA_CUSOLVER_SIZED(X, Xsyevdx)         \
  TESSERA_CUSOLVER_SIZED(X, Xgesvd)          \
  TESSERA_CUSOLVER_SIZED(X, Xgesvdp)         \
  TESSERA_CUSOLVER_SIZED(X, Xgeev)           \
  TESSERA_CUSOLVER_SIZED(X, Xtrtri)          \
  X(Xgetrs)                                  \
  TESSERA_CUSOLVER_PROBLEMS_OF(X, S, sy, or) \
  TESSERA_CUSOLVER_PROBLEMS_OF(X, D, sy, or) \
  TESSERA_CUSOLVER_PROBLEMS_OF(X, C, he, un) \
  TESSERA_CUSOLVER_PROBLEMS_OF(X, Z, he, un)

/// The functions in use, by their names without "cusolverDn". Those for whole problems may be missing.
struct CusolverLibrary {
#define TESSERA_CUSOLVER_MEMBER(name) decltype(&cusolverDn##name) name = nullptr;
  TESSERA_CUSOLVER_FUNCTIONS(TESSERA_CUSOLVER_MEMBER)
  TESSERA_CUSOLVER_PROBLEMS(TESSERA_CUSOLVER_MEMBER)
#undef TESSERA_CUSOLVER_MEMBER
};

/// Loads the library at the first call, on the calling thread. Thread-safe. @throws NotAvailable
const CusolverLibrary& cusolver();

/// getrf and geqrf in one form for the four types. All pointers refer to the GPU's memory.
struct CusolverMatrix {
  ScalarType type = ScalarType::d;
  int m = 0, n = 0;
  void* A = nullptr;
  int lda = 0;
};
cusolverStatus_t getrf_workspace(cusolverDnHandle_t handle, const CusolverMatrix& matrix, int* elements);
cusolverStatus_t getrf(cusolverDnHandle_t handle, const CusolverMatrix& matrix, void* workspace, int* pivots,
                       int* info);
cusolverStatus_t geqrf_workspace(cusolverDnHandle_t handle, const CusolverMatrix& matrix, int* elements);
cusolverStatus_t geqrf(cusolverDnHandle_t handle, const CusolverMatrix& matrix, void* tau, void* workspace,
                       int elements, int* info);

}  // namespace tessera::kernels::cuda
