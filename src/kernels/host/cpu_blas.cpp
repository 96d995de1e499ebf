// Finds, opens and calls the CPU BLAS of the machine. Everything is resolved here, on the thread that calls open();
// gemm() calls through plain pointers. The number of threads of that BLAS is the program's business and is never
// changed.
#include "kernels/host/cpu_blas.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "kernels/host/gemm_pieces.hpp"
#include "kernels/host/reference.hpp"

namespace tessera::kernels {

namespace {

/// Integers are passed by address. We pass 64-bit variables whose values fit in 32 bits: on a little-endian machine a
/// BLAS reads the same value from them whether its integers have 32 or 64 bits.
using BlasInt = std::int64_t;
static_assert(std::endian::native == std::endian::little);
constexpr index_t blas_int_max = std::numeric_limits<std::int32_t>::max();

/// The Fortran interface; character lengths come last, by value, where the callee looks for them at all.
using GemmFunction = void (*)(const char* op_a, const char* op_b, const BlasInt* m, const BlasInt* n, const BlasInt* k,
                              const void* alpha, const void* A, const BlasInt* lda, const void* B, const BlasInt* ldb,
                              const void* beta, void* C, const BlasInt* ldc, std::size_t op_a_length,
                              std::size_t op_b_length);

constexpr const char* gemm_symbols[] = {"sgemm_", "dgemm_", "cgemm_", "zgemm_"};  // by ScalarType

/// Exported by the drop-in library, so that it never takes itself for a CPU BLAS (libblas.so.3 may be a link to it).
constexpr const char* own_marker = "tessera_blas_marker";

/// In order. libblas.so.3 is whatever the system administrator chose.
constexpr const char* candidates[] = {"libopenblas.so.0", "libblas.so.3",   "libmkl_rt.so.2",
                                      "libblis.so.4",     "libopenblas.so", "libflexiblas.so.3"};

/// DEEPBIND keeps calls inside that BLAS from coming back to us through the global scope. The sanitizers' run-time
/// libraries refuse it.
#if defined(TESSERA_SANITIZED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int open_flags = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int open_flags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

constexpr char op_letter(Op op) { return "NTC"[static_cast<std::size_t>(op)]; }

std::string last_dl_error() {
  const char* message = dlerror();
  return message != nullptr ? message : "unknown error";
}

std::string file_of(void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

class LoadedBlas final : public CpuBlas {
 public:
  /// Takes what it needs from an open library. The library stays open for ever: a BLAS has threads of its own, under
  /// which its code must not be unmapped.
  /// @return nullptr, with the reason in `why`, if the library is not a complete BLAS or is ourselves; it is closed
  /// again then
  static std::shared_ptr<const LoadedBlas> from_handle(void* handle, std::string& why) {
    if (dlsym(handle, own_marker) != nullptr) {
      why = "it is this library itself";
      dlclose(handle);
      return nullptr;
    }
    auto blas = std::make_shared<LoadedBlas>();
    for (std::size_t i = 0; i < std::size(gemm_symbols); ++i) {
      void* const address = dlsym(handle, gemm_symbols[i]);
      if (address == nullptr) {
        why = std::string("it lacks ") + gemm_symbols[i];
        dlclose(handle);
        return nullptr;
      }
      blas->functions_[i] = reinterpret_cast<GemmFunction>(address);
    }
    blas->path_ = file_of(reinterpret_cast<void*>(blas->functions_[static_cast<std::size_t>(ScalarType::d)]));
    return blas;
  }

  const std::string& path() const noexcept override { return path_; }

  void run(const Level3& product) const override {
    if (product.m == 0 || product.n == 0) return;
    // Where C is only scaled, X and Y must not be read; OpenBLAS's kernels for small matrices read them nevertheless
    // (seen in 0.3.21: alpha == 0 and a NaN in X gives NaN), so that case is ours.
    const bool only_scales = product.alpha == AnyScalar(0) || product.k == 0;
    if (only_scales || std::max({product.lda, product.ldb, product.ldc}) > blas_int_max) {
      reference_gemm(product);
      return;
    }
    for_each_gemm_piece(product, blas_int_max, [this](const Level3& piece) { call(piece); });
  }

 private:
  void call(const Level3& p) const {
    const char op_x = op_letter(p.op_a);
    const char op_y = op_letter(p.op_b);
    const BlasInt m = p.m, n = p.n, k = p.k, ldx = p.lda, ldy = p.ldb, ldc = p.ldc;
    dispatch(p.type, [&]<Scalar T>(T) {
      const T alpha = scalar_cast<T>(p.alpha);
      const T beta = scalar_cast<T>(p.beta);
      functions_[static_cast<std::size_t>(p.type)](&op_x, &op_y, &m, &n, &k, &alpha, p.A, &ldx, p.B, &ldy, &beta, p.C,
                                                   &ldc, 1, 1);
    });
  }

  GemmFunction functions_[4] = {};
  std::string path_;
};

}  // namespace

std::shared_ptr<const CpuBlas> CpuBlas::open(const std::string& path, void* next_gemm) {
  std::string tried;
  const auto attempt = [&tried](const char* name, int flags) -> std::shared_ptr<const LoadedBlas> {
    std::string why;
    if (void* const handle = dlopen(name, flags)) {
      if (auto blas = LoadedBlas::from_handle(handle, why)) return blas;
    } else {
      why = last_dl_error();
    }
    tried += std::string(tried.empty() ? "" : "; ") + name + ": " + why;
    return nullptr;
  };

  if (!path.empty()) {
    if (auto blas = attempt(path.c_str(), open_flags)) return blas;
    throw NotAvailable("cannot use the CPU BLAS that was asked for: " + tried);
  }
  if (next_gemm != nullptr) {
    // The object is already open; all four functions are taken from it, never a mixture. NOLOAD, because a name that
    // does not lead back to it (a program that has BLAS linked in statically) must not load anything.
    const std::string file = file_of(next_gemm);
    if (!file.empty()) {
      if (auto blas = attempt(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return blas;
    }
  }
  for (const char* name : candidates) {
    if (auto blas = attempt(name, open_flags)) return blas;
  }
  throw NotAvailable("no CPU BLAS found: " + tried);
}

}  // namespace tessera::kernels
