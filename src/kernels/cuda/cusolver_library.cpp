#include "kernels/cuda/cusolver_library.hpp"

#include <string>
#include <type_traits>

#include "core/error.hpp"
#include "kernels/cuda/cuda_library.hpp"

namespace tessera::kernels::cuda {
namespace {

#define TESSERA_TEXT(name) #name
#define TESSERA_EXPANDED_TEXT(name) TESSERA_TEXT(name)
/// The library of the headers' major version. All releases of a major version are binary compatible.
constexpr const char* file_name = "libcusolver.so." TESSERA_EXPANDED_TEXT(CUSOLVER_VER_MAJOR);

CusolverLibrary open_library() {
  const CudaLibrary library("cuSOLVER", file_name);
  CusolverLibrary functions;
#define TESSERA_RESOLVE(name) library.resolve("cusolverDn" #name, functions.name);
  TESSERA_CUSOLVER_FUNCTIONS(TESSERA_RESOLVE)
#undef TESSERA_RESOLVE
  for (CusolverProblem* problem = CusolverProblem::first; problem != nullptr; problem = problem->next)
    problem->address = library.find(problem->name);
  return functions;
}

/// Calls call(routine of the type, null address of the routine's own element type).
template <class S, class D, class C, class Z, class Call>
cusolverStatus_t with(ScalarType type, S s, D d, C c, Z z, Call call) {
  switch (type) {
    case ScalarType::s:
      return call(s, static_cast<float*>(nullptr));
    case ScalarType::d:
      return call(d, static_cast<double*>(nullptr));
    case ScalarType::c:
      return call(c, static_cast<cuComplex*>(nullptr));
    case ScalarType::z:
      break;
  }
  return call(z, static_cast<cuDoubleComplex*>(nullptr));
}

template <class Pointer>
Pointer as(void* address, Pointer /*type*/) {
  return static_cast<Pointer>(address);
}

}  // namespace

const CusolverLibrary& cusolver() {
  static const CusolverLibrary functions = open_library();
  return functions;
}

cusolverStatus_t getrf_workspace(cusolverDnHandle_t handle, const CusolverMatrix& a, int* elements) {
  const CusolverLibrary& dn = cusolver();
  return with(a.type, dn.Sgetrf_bufferSize, dn.Dgetrf_bufferSize, dn.Cgetrf_bufferSize, dn.Zgetrf_bufferSize,
              [&](auto routine, auto type) { return routine(handle, a.m, a.n, as(a.A, type), a.lda, elements); });
}
cusolverStatus_t getrf(cusolverDnHandle_t handle, const CusolverMatrix& a, void* workspace, int* pivots, int* info) {
  const CusolverLibrary& dn = cusolver();
  return with(a.type, dn.Sgetrf, dn.Dgetrf, dn.Cgetrf, dn.Zgetrf, [&](auto routine, auto type) {
    return routine(handle, a.m, a.n, as(a.A, type), a.lda, as(workspace, type), pivots, info);
  });
}
cusolverStatus_t geqrf_workspace(cusolverDnHandle_t handle, const CusolverMatrix& a, int* elements) {
  const CusolverLibrary& dn = cusolver();
  return with(a.type, dn.Sgeqrf_bufferSize, dn.Dgeqrf_bufferSize, dn.Cgeqrf_bufferSize, dn.Zgeqrf_bufferSize,
              [&](auto routine, auto type) { return routine(handle, a.m, a.n, as(a.A, type), a.lda, elements); });
}
cusolverStatus_t geqrf(cusolverDnHandle_t handle, const CusolverMatrix& a, void* tau, void* workspace, int elements,
                       int* info) {
  const CusolverLibrary& dn = cusolver();
  return with(a.type, dn.Sgeqrf, dn.Dgeqrf, dn.Cgeqrf, dn.Zgeqrf, [&](auto routine, auto type) {
    return routine(handle, a.m, a.n, as(a.A, type), a.lda, as(tau, type), as(workspace, type), elements, info);
  });
}

}  // namespace tessera::kernels::cuda
