// The dense part of cuSOLVER, opened at run time as cuBLAS is: by the first factorization that needs it, on its
// caller's thread. It is never closed.
#pragma once

#include <cusolverDn.h>

#include <algorithm>
#include <cstddef>
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

/// The functions that every version has, by their names without "cusolverDn".
struct CusolverLibrary {
#define TESSERA_CUSOLVER_MEMBER(name) decltype(&cusolverDn##name) name = nullptr;
  TESSERA_CUSOLVER_FUNCTIONS(TESSERA_CUSOLVER_MEMBER)
#undef TESSERA_CUSOLVER_MEMBER
};

/// A function for whole problems, which older versions may lack. It is looked up when the library is opened, since workers
/// must not call dlsym. Constructors of static objects put all that are named anywhere into one list, and do nothing else.
struct CusolverProblem {
  explicit CusolverProblem(const char* its_name) noexcept : name(its_name), next(first) { first = this; }
  const char* name;
  void* address = nullptr;  ///< nullptr: this version lacks it
  CusolverProblem* next;
  static inline CusolverProblem* first = nullptr;
};
template <std::size_t size>
struct CusolverName {
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is a name
  constexpr CusolverName(const char (&name)[size]) { std::copy_n(name, size, text); }
  char text[size];
};
template <CusolverName name>
inline CusolverProblem cusolver_problem{name.text};
/// The address of a function for whole problems, or nullptr. @pre cusolver() has returned
#define TESSERA_CUSOLVER_PROBLEM(name) \
  reinterpret_cast<decltype(&cusolverDn##name)>(cusolver_problem<"cusolverDn" #name>.address)

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
