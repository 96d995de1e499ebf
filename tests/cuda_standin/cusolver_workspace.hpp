// The common part of the functions of cuSOLVER for whole problems: the LAPACK of the machine, which computes them, and their
// workspaces.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "kernels/host/dense_lapack.hpp"
#include "tests/cuda_standin/cusolver_context.hpp"

namespace tessera::cuda_standin {

using kernels::DenseLapack;
using kernels::DenseOutcome;

inline const DenseLapack& lapack() {
  static const DenseLapack functions([](const char* name) -> void* {
    static void* const library = [] {
      void* opened = nullptr;
      for (const char* const file : {"liblapack.so.3", "libopenblas.so.0"}) {
        if (opened == nullptr) opened = dlopen(file, RTLD_NOW | RTLD_LOCAL);
      }
      return opened;
    }();
    return library != nullptr ? dlsym(library, (std::string(name) + "_").c_str()) : nullptr;
  });
  return functions;
}

inline ScalarType type_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return ScalarType::s;
    case CUDA_R_64F:
      return ScalarType::d;
    case CUDA_C_32F:
      return ScalarType::c;
    default:
      return ScalarType::z;
  }
}
inline Uplo uplo_of(cublasFillMode_t fill) { return fill == CUBLAS_FILL_MODE_LOWER ? Uplo::lower : Uplo::upper; }
inline VectorJob job_of(signed char letter) {
  return letter == 'N' ? VectorJob::none : letter == 'S' ? VectorJob::thin : VectorJob::all;
}

inline constexpr std::size_t device_bytes = 4096, host_bytes = 512;
inline constexpr int elements_of_workspace = 96;

struct Workspace {
  void* on_device;
  std::size_t bytes;
  void* on_host;
  std::size_t bytes_on_host;
  std::size_t wanted = device_bytes, wanted_on_host = host_bytes;

  bool is_enough() const {
    return bytes >= wanted && bytes_on_host >= wanted_on_host && (on_host != nullptr || wanted_on_host == 0);
  }
  void use_up() const {
    std::memset(on_device, 0xff, bytes);
    if (on_host != nullptr) std::memset(on_host, 0xff, bytes_on_host);
  }
};

/// The workspace of the older interface, which has none on the host.
template <class T>
Workspace old_workspace(T* work, int elements) {
  return {work, static_cast<std::size_t>(elements) * sizeof(T), nullptr, 0, elements_of_workspace * sizeof(T), 0};
}

inline cusolverStatus_t tell_sizes(std::size_t* on_device, std::size_t* on_host) {
  *on_device = device_bytes;
  *on_host = host_bytes;
  return CUSOLVER_STATUS_SUCCESS;
}
inline cusolverStatus_t tell_elements(int* elements) {
  *elements = elements_of_workspace;
  return CUSOLVER_STATUS_SUCCESS;
}

/// No documentation promises that these imaginary parts are not read.
inline void expect_real_diagonals(const LapackCall& problem) {
  if (!is_eigenproblem(problem.routine) || !is_complex(problem.type)) return;
  dispatch(problem.type, [&]<Scalar T>(T) {
    for (index_t i = 0; i < problem.n; ++i) {
      const auto imaginary = [i](const void* A, index_t lda) {
        return AnyScalar(static_cast<const T*>(A)[i + i * lda]).imag();
      };
      if (imaginary(problem.A, problem.lda) != 0 ||
          (problem.routine == Routine::hegvd && imaginary(problem.B, problem.ldb) != 0))
        note_offence("a Hermitian matrix whose diagonal is not real");
    }
  });
}

/// Submits `work` to the stream, if the workspace suffices.
template <class Work>
cusolverStatus_t compute_in(const Workspace& workspace, const char* name, cusolverDnHandle_t handle, Work work) {
  if (!workspace.is_enough()) return CUSOLVER_STATUS_INVALID_VALUE;
  return compute(name, handle, [=] {
    workspace.use_up();
    work();
  });
}

inline DenseOutcome solve_now(const LapackCall& problem, int* info) {
  expect_real_diagonals(problem);
  DenseOutcome outcome;
  *info = lapack().prepare(problem)(outcome);
  return outcome;
}

inline cusolverStatus_t solve(const char* name, cusolverDnHandle_t handle, const LapackCall& problem,
                              const Workspace& workspace, int* info) {
  return compute_in(workspace, name, handle, [=] { solve_now(problem, info); });
}

}  // namespace tessera::cuda_standin
