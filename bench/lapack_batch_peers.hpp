// LAPACK on batches by others: cuBLAS; cuSOLVER and MAGMA, which are opened when the program runs, where they are there.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <complex>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "bench/frame/device_libraries.hpp"
#include "bench/frame/opened_library.hpp"
#include "bench/lapack_batch_cases.hpp"

namespace tessera::bench {

/// Functions of cuBLAS and cuSOLVER of one type, which differ by a letter.
template <class T>
struct VendorLapack;
#define TESSERA_VENDOR_LAPACK(T, letter)                                      \
  template <>                                                                 \
  struct VendorLapack<T> {                                                    \
    static constexpr auto scal = cublas##letter##scal;                        \
    static constexpr auto getrf = cublas##letter##getrfBatched;               \
    static constexpr auto getrs = cublas##letter##getrsBatched;               \
    static constexpr auto getri = cublas##letter##getriBatched;               \
    static constexpr auto matinv = cublas##letter##matinvBatched;             \
    using Potrf = decltype(&cusolverDn##letter##potrfBatched);                \
    using Potrs = decltype(&cusolverDn##letter##potrsBatched);                \
    static constexpr const char* potrf = "cusolverDn" #letter "potrfBatched"; \
    static constexpr const char* potrs = "cusolverDn" #letter "potrsBatched"; \
  }
TESSERA_VENDOR_LAPACK(float, S);
TESSERA_VENDOR_LAPACK(double, D);
TESSERA_VENDOR_LAPACK(std::complex<float>, C);
TESSERA_VENDOR_LAPACK(std::complex<double>, Z);
#undef TESSERA_VENDOR_LAPACK

/// cuSOLVER on a stream. It lives as long as the process.
class Cusolver {
 public:
  Cusolver(const std::string& name, cudaStream_t stream) : library_(opened(name)) {
    if (!library_.is_open()) return;
    check(library_.get<decltype(&cusolverDnCreate)>("cusolverDnCreate")(&handle_), "cusolverDnCreate");
    check(library_.get<decltype(&cusolverDnSetStream)>("cusolverDnSetStream")(handle_, stream), "cusolverDnSetStream");
  }

  const OpenedLibrary& library() const { return library_; }
  cusolverDnHandle_t handle() const { return handle_; }
  static void check(cusolverStatus_t status, const char* what) {
    if (status != CUSOLVER_STATUS_SUCCESS)
      throw std::runtime_error(std::string(what) + ": cuSOLVER status " + std::to_string(status));
  }

 private:
  static OpenedLibrary opened(const std::string& name) {
    if (!name.empty()) return OpenedLibrary(name);
    const std::string of_this_version = "libcusolver.so." + std::to_string(CUSOLVER_VER_MAJOR);
    OpenedLibrary library(of_this_version);
    return library.is_open() ? library : OpenedLibrary("libcusolver.so");
  }

  OpenedLibrary library_;
  cusolverDnHandle_t handle_ = nullptr;
};

/// MAGMA on a stream, from a build with 32-bit integers. It lives as long as the process.
class Magma {
 public:
  Magma(const std::string& name, cudaStream_t stream) : library_(name) {
    try {
      static_cast<void>(library_.get<int (*)()>("magma_init")());
      library_.get<void (*)(int, cudaStream_t, void*, void*, void**, const char*, const char*, int)>(
          "magma_queue_create_from_cuda_internal")(0, stream, nullptr, nullptr, &queue_, __func__, __FILE__, __LINE__);
    } catch (const std::exception& error) {
      why_not_ = error.what();
    }
  }

  /// "" if it is there
  const std::string& why_not() const { return why_not_; }
  const std::string& name() const { return library_.name(); }
  void* queue() const { return queue_; }
  /// @param routine  as in "magma_dgetrf_batched"; @throws std::runtime_error if it is not there
  template <class Function>
  Function get(ScalarType type, const char* routine) const {
    if (!why_not_.empty()) throw std::runtime_error(why_not_);
    return library_.get<Function>(std::string("magma_") + letter(type) + routine);
  }

  static int uplo(Uplo uplo) { return uplo == Uplo::upper ? 121 : 122; }
  static constexpr int no_trans = 111;
  static void check(int status, const char* what) {
    if (status != 0) throw std::runtime_error(std::string("MAGMA's ") + what + ": " + std::to_string(status));
  }

  // Addresses of elements are those of all types.
  using Getrf = int (*)(int m, int n, void* A, int lda, int** pivots, int* info, int count, void* queue);
  using GetrfNopiv = int (*)(int m, int n, void* A, int lda, int* info, int count, void* queue);
  using Potrf = int (*)(int uplo, int n, void* A, int lda, int* info, int count, void* queue);
  using Getrs = int (*)(int trans, int n, int nrhs, void* A, int lda, int** pivots, void* B, int ldb, int count,
                        void* queue);
  using Potrs = int (*)(int uplo, int n, int nrhs, void* A, int lda, void* B, int ldb, int count, void* queue);
  using Gesv = int (*)(int n, int nrhs, void* A, int lda, int** pivots, void* B, int ldb, int* info, int count,
                       void* queue);
  using Posv = int (*)(int uplo, int n, int nrhs, void* A, int lda, void* B, int ldb, int* info, int count,
                       void* queue);
  using Getri = int (*)(int n, void* A, int lda, int** pivots, void* inverse, int ldi, int* info, int count,
                        void* queue);

 private:
  OpenedLibrary library_;
  std::string why_not_;
  void* queue_ = nullptr;
};

}  // namespace tessera::bench
