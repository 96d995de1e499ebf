#include "kernels/cuda/cublas_library.hpp"

#include <string>

#include "core/error.hpp"
#include "kernels/cuda/cuda_library.hpp"

namespace tessera::kernels::cuda {
namespace {

#define TESSERA_TEXT(name) #name
#define TESSERA_EXPANDED_TEXT(name) TESSERA_TEXT(name)
/// The library of the headers' major version. All releases of a major version are binary compatible.
constexpr const char* file_name = "libcublas.so." TESSERA_EXPANDED_TEXT(CUBLAS_VER_MAJOR);

CublasLibrary open_library() {
  const CudaLibrary library("cuBLAS", file_name);
  CublasLibrary functions;
  // cublas_v2.h defines the names of the second API as macros over those of the first.
#define TESSERA_RESOLVE_ROUTINE(name) \
  library.resolve(TESSERA_EXPANDED_TEXT(TESSERA_CUBLAS_ROUTINE(name)), functions.name);
#define TESSERA_RESOLVE_SERVICE(name) library.resolve(TESSERA_EXPANDED_TEXT(cublas##name), functions.name);
  TESSERA_CUBLAS_ROUTINES(TESSERA_RESOLVE_ROUTINE)
  TESSERA_CUBLAS_SERVICES(TESSERA_RESOLVE_SERVICE)
#undef TESSERA_RESOLVE_ROUTINE
#undef TESSERA_RESOLVE_SERVICE
  return functions;
}

}  // namespace

const CublasLibrary& cublas() {
  static const CublasLibrary functions = open_library();
  return functions;
}

std::string describe_status(int ordinal, const char* what, cublasStatus_t status) {
  return "cuda:" + std::to_string(ordinal) + ": " + what + ": " + cublas().GetStatusString(status) + " (" +
         std::to_string(static_cast<int>(status)) + ")";
}

}  // namespace tessera::kernels::cuda
