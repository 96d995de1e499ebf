// Tessera's functions for LAPACK on batches in device memory, from a library that is opened when the program runs: so that
// the program is there before they are, and can measure an older build.
#pragma once

#include <dlfcn.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "bench/lapack_batch_cases.hpp"
#include "tessera/device_blas.h"

#if __has_include("tessera/device_lapack.h")
#include "tessera/device_lapack.h"
#else
// What that header is going to declare. Real: of `tiny`.
#define TESSERA_DEVICE_LAPACK(x, Element, Real)                                                                        \
  TESSERA_API tessera_status tessera_device_##x##potrf_batched(                                                        \
      tessera_device_handle, tessera_uplo, int64_t n, Element* const* A, int64_t lda, int* info, int64_t batch_count); \
  TESSERA_API tessera_status tessera_device_##x##getrf_batched(tessera_device_handle, int64_t m, int64_t n,            \
                                                               Element* const* A, int64_t lda, int* const* ipiv,       \
                                                               int* info, int64_t batch_count);                        \
  TESSERA_API tessera_status tessera_device_##x##getrf_nopiv_batched(tessera_device_handle, int64_t m, int64_t n,      \
                                                                     Element* const* A, int64_t lda, Real tiny,        \
                                                                     int* info, int64_t batch_count);                  \
  TESSERA_API tessera_status tessera_device_##x##potrs_batched(                                                        \
      tessera_device_handle, tessera_uplo, int64_t n, int64_t nrhs, const Element* const* A, int64_t lda,              \
      Element* const* B, int64_t ldb, int* info, int64_t batch_count);                                                 \
  TESSERA_API tessera_status tessera_device_##x##getrs_batched(                                                        \
      tessera_device_handle, tessera_transpose, int64_t n, int64_t nrhs, const Element* const* A, int64_t lda,         \
      const int* const* ipiv, Element* const* B, int64_t ldb, int* info, int64_t batch_count);                         \
  TESSERA_API tessera_status tessera_device_##x##gesv_batched(                                                         \
      tessera_device_handle, int64_t n, int64_t nrhs, Element* const* A, int64_t lda, int* const* ipiv,                \
      Element* const* B, int64_t ldb, int* info, int64_t batch_count);                                                 \
  TESSERA_API tessera_status tessera_device_##x##posv_batched(                                                         \
      tessera_device_handle, tessera_uplo, int64_t n, int64_t nrhs, Element* const* A, int64_t lda, Element* const* B, \
      int64_t ldb, int* info, int64_t batch_count);                                                                    \
  TESSERA_API tessera_status tessera_device_##x##potri_batched(                                                        \
      tessera_device_handle, tessera_uplo, int64_t n, Element* const* A, int64_t lda, int* info, int64_t batch_count); \
  TESSERA_API tessera_status tessera_device_##x##getri_batched(tessera_device_handle, int64_t n, Element* const* A,    \
                                                               int64_t lda, const int* const* ipiv, int* info,         \
                                                               int64_t batch_count);                                   \
  TESSERA_API tessera_status tessera_device_##x##potri_batched_workspace(tessera_device_handle, int64_t n,             \
                                                                         int64_t batch_count, size_t* bytes);          \
  TESSERA_API tessera_status tessera_device_##x##getri_batched_workspace(tessera_device_handle, int64_t n,             \
                                                                         int64_t batch_count, size_t* bytes);
extern "C" {
TESSERA_DEVICE_LAPACK(s, float, float)
TESSERA_DEVICE_LAPACK(d, double, double)
TESSERA_DEVICE_LAPACK(c, void, float)
TESSERA_DEVICE_LAPACK(z, void, double)
}
#undef TESSERA_DEVICE_LAPACK
#endif

namespace tessera::bench {

/// A library that stays open. Without a name, or where it cannot be opened, it has no functions.
class OpenedLibrary {
 public:
  explicit OpenedLibrary(const std::string& name) : name_(name) {
    if (name.empty()) {
      why_not_ = "not asked for";
    } else if (library_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); library_ == nullptr) {
      why_not_ = dlerror();
    }
  }

  bool is_open() const { return library_ != nullptr; }
  const std::string& name() const { return name_; }
  const std::string& why_not() const { return why_not_; }

  /// Null if the library has no such function.
  template <class Function>
  Function find(const std::string& function) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, function.c_str()));
  }
  /// @throws std::runtime_error if the library has no such function
  template <class Function>
  Function get(const std::string& function) const {
    if (const auto found = find<Function>(function)) return found;
    throw std::runtime_error(is_open() ? name_ + " has no " + function : why_not_);
  }

 private:
  std::string name_, why_not_;
  void* library_ = nullptr;
};

/// The file that is asked for (`none`: no file), or libtessera_device.so beside this program's folder, as in the build
/// tree and where it is installed.
inline std::string own_library(const std::string& asked) {
  if (asked == "none") return "";
  if (!asked.empty()) return asked;
  const auto beside =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib" / "libtessera_device.so";
  return std::filesystem::exists(beside) ? beside.string() : "libtessera_device.so";
}

/// Tessera's functions of one type; null: the library lacks it.
template <class T>
struct OwnLapack;
#define TESSERA_OWN(x, routine)                    \
  decltype(&tessera_device_##x##routine) routine = \
      library.find<decltype(&tessera_device_##x##routine)>("tessera_device_" #x #routine)
#define TESSERA_OWN_LAPACK(T, x, ElementOfT)                             \
  template <>                                                            \
  struct OwnLapack<T> {                                                  \
    using Element = ElementOfT;                                          \
    explicit OwnLapack(const OpenedLibrary& opened) : library(opened) {} \
    const OpenedLibrary& library;                                        \
    TESSERA_OWN(x, potrf_batched);                                       \
    TESSERA_OWN(x, getrf_batched);                                       \
    TESSERA_OWN(x, getrf_nopiv_batched);                                 \
    TESSERA_OWN(x, potrs_batched);                                       \
    TESSERA_OWN(x, getrs_batched);                                       \
    TESSERA_OWN(x, gesv_batched);                                        \
    TESSERA_OWN(x, posv_batched);                                        \
    TESSERA_OWN(x, potri_batched);                                       \
    TESSERA_OWN(x, getri_batched);                                       \
    TESSERA_OWN(x, potri_batched_workspace);                             \
    TESSERA_OWN(x, getri_batched_workspace);                             \
  }
TESSERA_OWN_LAPACK(float, s, float);
TESSERA_OWN_LAPACK(double, d, double);
TESSERA_OWN_LAPACK(std::complex<float>, c, void);
TESSERA_OWN_LAPACK(std::complex<double>, z, void);
#undef TESSERA_OWN_LAPACK
#undef TESSERA_OWN

/// A handle of Tessera's on a stream. It lives as long as the process.
class OwnDevice {
 public:
  OwnDevice(const OpenedLibrary& library, void* stream) {
    if (!library.is_open()) return;
    last_error_ = library.get<decltype(&tessera_device_last_error)>("tessera_device_last_error");
    set_workspace_ = library.get<decltype(&tessera_device_set_workspace)>("tessera_device_set_workspace");
    check(library.get<decltype(&tessera_device_create)>("tessera_device_create")(&handle_), "tessera_device_create");
    check(library.get<decltype(&tessera_device_set_stream)>("tessera_device_set_stream")(handle_, stream),
          "tessera_device_set_stream");
  }

  tessera_device_handle handle() const { return handle_; }
  void check(tessera_status status, const char* what) const {
    if (status != TESSERA_SUCCESS) throw std::runtime_error(std::string(what) + ": " + last_error_());
  }
  void set_workspace(void* memory, std::size_t bytes) const {
    check(set_workspace_(handle_, memory, bytes), "tessera_device_set_workspace");
  }

 private:
  tessera_device_handle handle_ = nullptr;
  decltype(&tessera_device_last_error) last_error_ = nullptr;
  decltype(&tessera_device_set_workspace) set_workspace_ = nullptr;
};

}  // namespace tessera::bench
