// Finds, opens and calls the CPU BLAS of the machine. Everything is resolved here, on the thread that calls open();
// run() calls through plain pointers. The number of threads of that BLAS is the program's business and is never
// changed.
#include "kernels/host/cpu_blas.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
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

/// The Fortran interface, by the shape of the calls; character lengths come last, by value, where the callee looks for
/// them at all. alpha and beta are passed by address, so one signature does for all types: where the interface takes a
/// real factor with complex matrices (herk; beta of her2k), the address of a complex number is that of its real part.
using GemmFunction = void (*)(const char* op_a, const char* op_b, const BlasInt* m, const BlasInt* n, const BlasInt* k,
                              const void* alpha, const void* A, const BlasInt* lda, const void* B, const BlasInt* ldb,
                              const void* beta, void* C, const BlasInt* ldc, std::size_t, std::size_t);
/// symm, hemm
using SymmFunction = void (*)(const char* side, const char* uplo, const BlasInt* m, const BlasInt* n, const void* alpha,
                              const void* A, const BlasInt* lda, const void* B, const BlasInt* ldb, const void* beta,
                              void* C, const BlasInt* ldc, std::size_t, std::size_t);
/// syrk, herk
using RankKFunction = void (*)(const char* uplo, const char* op_a, const BlasInt* n, const BlasInt* k,
                               const void* alpha, const void* A, const BlasInt* lda, const void* beta, void* C,
                               const BlasInt* ldc, std::size_t, std::size_t);
/// syr2k, her2k
using Rank2kFunction = void (*)(const char* uplo, const char* op_a, const BlasInt* n, const BlasInt* k,
                                const void* alpha, const void* A, const BlasInt* lda, const void* B, const BlasInt* ldb,
                                const void* beta, void* C, const BlasInt* ldc, std::size_t, std::size_t);
/// trmm, trsm; the matrix that they overwrite is B in BLAS and C here.
using TriangularFunction = void (*)(const char* side, const char* uplo, const char* op_a, const char* diag,
                                    const BlasInt* m, const BlasInt* n, const void* alpha, const void* A,
                                    const BlasInt* lda, void* C, const BlasInt* ldc, std::size_t, std::size_t,
                                    std::size_t, std::size_t);

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

constexpr char letter_of(Op op) { return "NTC"[static_cast<std::size_t>(op)]; }
constexpr char letter_of(Side side) { return "LR"[static_cast<std::size_t>(side)]; }
constexpr char letter_of(Uplo uplo) { return "UL"[static_cast<std::size_t>(uplo)]; }
constexpr char letter_of(Diag diag) { return "NU"[static_cast<std::size_t>(diag)]; }

void copy_block(const void* from, index_t from_ld, void* to, index_t to_ld, index_t rows, index_t cols,
                ScalarType type) {
  const auto bytes = static_cast<index_t>(element_bytes(type));
  for (index_t j = 0; j < cols; ++j) {
    std::memcpy(static_cast<std::byte*>(to) + j * to_ld * bytes,
                static_cast<const std::byte*>(from) + j * from_ld * bytes, static_cast<std::size_t>(rows * bytes));
  }
}

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
    for (int routine = 0; routine < routine_count; ++routine) {
      for (const ScalarType type : {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z}) {
        const Level3 call{.routine = static_cast<Routine>(routine), .type = type};
        if (call.is_hermitian() && !is_complex(type)) continue;
        const std::string symbol = name_of(call) + '_';
        void* const address = dlsym(handle, symbol.c_str());
        if (address == nullptr) {
          why = "it lacks " + symbol;
          dlclose(handle);
          return nullptr;
        }
        blas->functions_[static_cast<std::size_t>(routine)][static_cast<std::size_t>(type)] = address;
      }
    }
    blas->path_ = file_of(blas->address_of({.routine = Routine::gemm, .type = ScalarType::d}));
    return blas;
  }

  const std::string& path() const noexcept override { return path_; }

  void run(const Level3& call) const override {
    if (call.m == 0 || call.n == 0) return;
    // Where C is only scaled, A and B must not be read; OpenBLAS's kernels for small matrices read them nevertheless
    // (seen in 0.3.21: gemm with alpha == 0 and a NaN in A gives NaN), so that case is ours.
    const bool is_gemm = call.routine == Routine::gemm;
    const index_t largest_size = std::max({call.m, call.n, call.has_k() ? call.k : 0});
    if (call.only_scales() || std::max({call.lda, call.ldb, call.ldc}) > blas_int_max ||
        (!is_gemm && largest_size > blas_int_max)) {
      reference_level3(call);
    } else if (is_gemm) {
      for_each_gemm_piece(call, blas_int_max, [this](const Level3& piece) { run_in_blas(piece); });
    } else {
      run_in_blas(call);
    }
  }

 private:
  void* address_of(const Level3& call) const {
    return functions_[static_cast<std::size_t>(call.routine)][static_cast<std::size_t>(call.type)];
  }
  template <class Function>
  Function function_of(const Level3& call) const {
    return reinterpret_cast<Function>(address_of(call));
  }

  /// @pre every size fits
  void run_in_blas(const Level3& c) const {
    if (c.routine == Routine::trmm && c.B != c.C) copy_block(c.B, c.ldb, c.C, c.ldc, c.m, c.n, c.type);
    dispatch(c.type, [&]<Scalar T>(T) {
      const T alpha = scalar_cast<T>(c.alpha);
      const T beta = scalar_cast<T>(c.beta);
      run_typed(c, &alpha, &beta);
    });
  }

  void run_typed(const Level3& c, const void* alpha, const void* beta) const {
    const char op_a = letter_of(c.op_a), op_b = letter_of(c.op_b);
    const char side = letter_of(c.side), uplo = letter_of(c.uplo), diag = letter_of(c.diag);
    const BlasInt m = c.m, n = c.n, k = c.k, lda = c.lda, ldb = c.ldb, ldc = c.ldc;
    switch (c.routine) {
      case Routine::gemm:
        return function_of<GemmFunction>(c)(&op_a, &op_b, &m, &n, &k, alpha, c.A, &lda, c.B, &ldb, beta, c.C, &ldc, 1,
                                            1);
      case Routine::symm:
      case Routine::hemm:
        return function_of<SymmFunction>(c)(&side, &uplo, &m, &n, alpha, c.A, &lda, c.B, &ldb, beta, c.C, &ldc, 1, 1);
      case Routine::syrk:
      case Routine::herk:
        return function_of<RankKFunction>(c)(&uplo, &op_a, &n, &k, alpha, c.A, &lda, beta, c.C, &ldc, 1, 1);
      case Routine::syr2k:
      case Routine::her2k:
        return function_of<Rank2kFunction>(c)(&uplo, &op_a, &n, &k, alpha, c.A, &lda, c.B, &ldb, beta, c.C, &ldc, 1, 1);
      case Routine::trmm:
      case Routine::trsm:
        return function_of<TriangularFunction>(c)(&side, &uplo, &op_a, &diag, &m, &n, alpha, c.A, &lda, c.C, &ldc, 1, 1,
                                                  1, 1);
    }
  }

  void* functions_[routine_count][4] = {};  ///< by Routine and ScalarType; nullptr where there is no such routine
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
    // The object is already open; all functions are taken from it, never a mixture. NOLOAD, because a name that
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
