// Finds, opens and calls the CPU BLAS of the machine. All symbols are resolved here, on the thread that calls open();
// run() calls through plain pointers. The program decides on the number of threads of that BLAS, which is never changed
// here.
#include "kernels/host/cpu_blas.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/integer_width.hpp"
#include "core/loaded_objects.hpp"
#include "core/process.hpp"
#include "core/thread.hpp"
#include "kernels/host/gemm_pieces.hpp"
#include "kernels/host/gemmt_pieces.hpp"
#include "kernels/reference/reference.hpp"

namespace tessera::kernels {

namespace {

/// Integers are passed by address, as 64-bit variables whose values fit in 32 bits. On a little-endian machine a BLAS
/// reads the same value from them whether its integers have 32 or 64 bits.
using BlasInt = std::int64_t;
static_assert(std::endian::native == std::endian::little);
constexpr index_t blas_int_max = std::numeric_limits<std::int32_t>::max();
/// The size of OpenBLAS's buffer for packed operands, on x86-64 and arm64; its other builds use less.
constexpr std::size_t openblas_buffer_bytes = std::size_t{128} << 20;

/// The Fortran interface, by the shape of the calls. Character lengths come last, by value; some callees ignore them.
/// alpha and beta are passed by address, so one signature serves all types. Some factors are real although the matrices
/// are complex (herk; beta of her2k). The address of a complex number is also that of its real part.
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
using GemmtFunction = void (*)(const char* uplo, const char* op_a, const char* op_b, const BlasInt* n, const BlasInt* k,
                               const void* alpha, const void* A, const BlasInt* lda, const void* B, const BlasInt* ldb,
                               const void* beta, void* C, const BlasInt* ldc, std::size_t, std::size_t, std::size_t);
/// trmm, trsm; the matrix that they overwrite is B in the BLAS and C here.
using TriangularFunction = void (*)(const char* side, const char* uplo, const char* op_a, const char* diag,
                                    const BlasInt* m, const BlasInt* n, const void* alpha, const void* A,
                                    const BlasInt* lda, void* C, const BlasInt* ldc, std::size_t, std::size_t,
                                    std::size_t, std::size_t);

/// The drop-in libraries export this symbol, so that none of them is ever taken for a CPU BLAS (libblas.so.3 may be a
/// link to one of them).
constexpr const char* own_marker = "tessera_blas_marker";

/// The candidates in order, by the width of their integers. The system administrator chooses libblas.so.3. The width of
/// MKL depends on its settings.
constexpr const char* candidates_32[] = {"libopenblas.so.0", "libblas.so.3",   "libmkl_rt.so.2",
                                         "libblis.so.4",     "libopenblas.so", "libflexiblas.so.3"};
constexpr const char* candidates_64[] = {"libopenblas64.so.0", "libopenblas64_.so.0", "libblas64.so.3",
                                         "libmkl_rt.so.2", "libflexiblas64.so.3"};

/// Folders of distributions with the alternatives for libblas.so.3. Tessera itself may be one of them.
constexpr const char* alternative_folders[] = {"/usr/lib/*/*/", "/usr/lib64/*/", "/usr/lib/*/"};

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
  const char* const file = file_of_object(address);
  return file != nullptr ? file : "";
}

using Number = int (*)();

/// The function that returns an OpenBLAS's number of threads. nullptr: the library is not OpenBLAS, or it is built
/// without threads and is perhaps not safe for threaded callers. Other libraries return a number, too, but may give
/// each small product to a team of threads. An OpenBLAS with threads of its own ends them before a fork, and waits for
/// ever if they are busy then (0.3.21).
Number number_of_threads(void* handle, const SymbolScheme& scheme) {
  constexpr int none = 0, own_threads = 1;  // 2: those of OpenMP
  const auto parallel = reinterpret_cast<Number>(dlsym(handle, scheme.extension("openblas_get_parallel").c_str()));
  const auto threads = reinterpret_cast<Number>(dlsym(handle, scheme.extension("openblas_get_num_threads").c_str()));
  if (parallel == nullptr || threads == nullptr || parallel() == none) return nullptr;
  if (parallel() == own_threads) process::must_be_left(threads);
  return threads;
}

/// The functions of the OpenMP runtime that the program, or its BLAS, has loaded.
struct OpenMp {
  Number max_threads = nullptr;
  Number in_parallel = nullptr;

  static OpenMp find(void* blas) {
    for (void* const where : {blas, RTLD_DEFAULT}) {
      const auto max_threads = reinterpret_cast<Number>(dlsym(where, "omp_get_max_threads"));
      const auto in_parallel = reinterpret_cast<Number>(dlsym(where, "omp_in_parallel"));
      if (max_threads == nullptr || in_parallel == nullptr) continue;
      // The runtime must stay loaded, even if the program closes it.
      static_cast<void>(keep_loaded(file_of_object(reinterpret_cast<void*>(max_threads))));
      return {max_threads, in_parallel};
    }
    return {};
  }
};

class LoadedBlas final : public CpuBlas {
 public:
  /// Takes the functions from an open library. The library is never closed: a BLAS has threads of its own, and their
  /// code must stay mapped.
  /// @return nullptr, with the reason in `why`, if the library is not a complete BLAS with these names or is one of
  /// ours
  static std::shared_ptr<const LoadedBlas> from_handle(void* handle, const SymbolScheme& scheme, int bits,
                                                       std::string& why) {
    auto blas = std::make_shared<LoadedBlas>();
    for (const Routine routine : level3_routines) {
      for (const ScalarType type : {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z}) {
        const Level3 call{.routine = routine, .type = type};
        if (!exists(routine, type)) continue;
        const std::string symbol = scheme.fortran(name_of(call));
        void* const address = dlsym(handle, symbol.c_str());
        if (address == nullptr && call.routine != Routine::gemmt) {
          why = "it lacks " + symbol;
          return nullptr;
        }
        blas->functions_[static_cast<std::size_t>(routine)][static_cast<std::size_t>(type)] = address;
      }
    }
    blas->choose_gemmt(handle, scheme);
    blas->handle_ = handle;
    blas->scheme_ = scheme;
    const int own_bits = integer_bits_by(dlsym(handle, scheme.fortran("isamax").c_str()));
    blas->integer_bits_ = own_bits != 0 ? own_bits : bits;  // otherwise the width that its name stands for
    blas->path_ = file_of(blas->address_of({.routine = Routine::gemm, .type = ScalarType::d}));
    blas->lapack_ = LapackFunctions::find(handle, scheme, blas->integer_bits_);
    blas->own_threads_ = number_of_threads(handle, scheme);
    if (dlsym(handle, scheme.extension("openblas_get_config").c_str()) != nullptr)
      blas->bytes_per_caller_ = openblas_buffer_bytes;
    blas->openmp_ = OpenMp::find(handle);
    process::watch_loaded(handle);
    return blas;
  }

  int integer_bits() const noexcept override { return integer_bits_; }
  const LapackFunctions& lapack() const noexcept override { return lapack_; }
  std::size_t bytes_per_caller() const noexcept override { return bytes_per_caller_; }
  BlasThreads threads() const noexcept override {
    BlasThreads now;
    if (own_threads_ == nullptr) return now;
    now.own = std::max(own_threads_(), 1);
    if (openmp_.max_threads == nullptr) return now;
    now.openmp = openmp_.max_threads();
    now.in_team = openmp_.in_parallel() != 0;
    return now;
  }
  void* fortran(const char* name) const override { return dlsym(handle_, scheme_.fortran(name).c_str()); }
  void* cblas(const char* name) const override { return dlsym(handle_, scheme_.cblas(name).c_str()); }
  const std::string& path() const noexcept override { return path_; }

  void run(const Level3& call) const override {
    if (call.m == 0 || call.n == 0) return;
    // If C is only scaled, A and B must not be read. OpenBLAS's kernels for small matrices read them nevertheless (seen
    // in 0.3.21: gemm with alpha == 0 and a NaN in A gives NaN), so our code handles that case.
    const index_t largest = integer_bits_ == 64 ? std::numeric_limits<BlasInt>::max() : blas_int_max;
    const bool is_large = std::max({call.m, call.n, call.has_k() ? call.k : 0}) > largest;
    if (call.only_scales() || std::max({call.lda, call.ldb, call.ldc}) > largest || (is_large && !call.has_op_b())) {
      reference_level3(call);
    } else if (call.routine == Routine::gemm) {
      multiply(call, largest);
    } else if (call.routine == Routine::gemmt && (is_large || address_of(call) == nullptr)) {
      triangle_by_gemm(call, largest);
    } else {
      run_in_blas(call);
    }
  }

 private:
  void multiply(const Level3& gemm, index_t largest) const {
    for_each_gemm_piece(gemm, largest, [this](const Level3& piece) { run_in_blas(piece); });
  }

  void triangle_by_gemm(const Level3& gemmt, index_t largest) const {
    compute_gemmt_by_gemm(gemmt, [&](const Level3& gemm) { multiply(gemm, largest); });
  }

  /// Looks up gemmt of all types, by one of its two names. Without it triangle_by_gemm() is used. The search cannot
  /// find a function of ours: a library that leads to one of ours has the marker, and was not opened.
  void choose_gemmt(void* handle, const SymbolScheme& scheme) {
    auto& gemmt = functions_[static_cast<std::size_t>(Routine::gemmt)];
    for (const char* name : {"gemmt", "gemmtr"}) {
      for (const ScalarType type : scalar_types)
        gemmt[static_cast<std::size_t>(type)] = dlsym(handle, scheme.fortran(letter(type) + std::string(name)).c_str());
      if (std::find(std::begin(gemmt), std::end(gemmt), nullptr) == std::end(gemmt) && conjugates_in_gemmt()) return;
    }
    std::fill(std::begin(gemmt), std::end(gemmt), nullptr);
  }

  /// OpenBLAS before 0.3.30 does not. It takes B as it is (seen in 0.3.26), or conjugates the caller's B in place
  /// (0.3.27, 0.3.29). Its gemmt also multiplies column by column, at a tenth of gemm's rate.
  bool conjugates_in_gemmt() const {
    using Complex = std::complex<float>;
    const Complex A = 1, alpha = 1, beta = 0;
    Complex B(0, 1), C = 0;
    const Level3 call{.routine = Routine::gemmt,
                      .type = ScalarType::c,
                      .op_b = Op::conj_trans,
                      .m = 1,
                      .n = 1,
                      .k = 1,
                      .A = &A,
                      .lda = 1,
                      .B = &B,
                      .ldb = 1,
                      .C = &C,
                      .ldc = 1};
    run_typed(call, &alpha, &beta);
    return B == Complex(0, 1) && C == Complex(0, -1);
  }

  void* address_of(const Level3& call) const {
    return functions_[static_cast<std::size_t>(call.routine)][static_cast<std::size_t>(call.type)];
  }
  template <class Function>
  Function function_of(const Level3& call) const {
    return reinterpret_cast<Function>(address_of(call));
  }

  /// @pre every size fits the integers of the BLAS
  void run_in_blas(const Level3& c) const {
    if (c.routine == Routine::trmm && c.B != c.C) copy_block(c.B, c.ldb, c.C, c.ldc, c.m, c.n, c.type);
    dispatch(c.type, [&]<Scalar T>(T) {
      const T alpha = scalar_cast<T>(c.alpha);
      const T beta = scalar_cast<T>(c.beta);
      run_typed(c, &alpha, &beta);
    });
  }

  void run_typed(const Level3& c, const void* alpha, const void* beta) const {
    const process::Pass pass(process::Work::computing);
    const char op_a = letter_of(c.op_a), op_b = letter_of(c.op_b);
    const char side = letter_of(c.side), uplo = letter_of(c.uplo), diag = letter_of(c.diag);
    const BlasInt m = c.m, n = c.n, k = c.k, lda = c.lda, ldb = c.ldb, ldc = c.ldc;
    switch (c.routine) {
      case Routine::gemm:
        return function_of<GemmFunction>(c)(&op_a, &op_b, &m, &n, &k, alpha, c.A, &lda, c.B, &ldb, beta, c.C, &ldc, 1,
                                            1);
      case Routine::gemmt:
        return function_of<GemmtFunction>(c)(&uplo, &op_a, &op_b, &n, &k, alpha, c.A, &lda, c.B, &ldb, beta, c.C, &ldc,
                                             1, 1, 1);
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
      default:
        return;
    }
  }

  void* functions_[routine_count][4] = {};  ///< by Routine and ScalarType; nullptr where there is no such routine
  LapackFunctions lapack_;
  void* handle_ = nullptr;
  std::size_t bytes_per_caller_ = 0;
  Number own_threads_ = nullptr;
  OpenMp openmp_;
  SymbolScheme scheme_;
  int integer_bits_ = 32;
  std::string path_;
};

/// Files of that name in the distribution's folders of alternatives. The reference comes last, because it is slow.
std::vector<std::string> alternatives(const std::string& name) {
  std::vector<std::string> files;
  for (const char* folder : alternative_folders) {
    const std::string pattern = folder + name;
    glob_t found{};
    const std::unique_ptr<glob_t, void (*)(glob_t*)> freed(&found, globfree);
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
      files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  std::stable_partition(files.begin(), files.end(), [](const std::string& file) {
    return file.find("/blas/") == std::string::npos && file.find("/blas64/") == std::string::npos;
  });
  return files;
}

/// One search: the files that it tries, and the reasons why they were not taken.
class Attempts {
 public:
  explicit Attempts(const CpuBlasSearch& search) : search_(search) {}

  /// @param bits the width that it must have; 0: any
  std::shared_ptr<const CpuBlas> open(const std::string& file, std::initializer_list<SymbolScheme> schemes, int bits,
                                      int extra_flags = 0) {
    return open(file, std::vector<SymbolScheme>(schemes), bits, extra_flags);
  }

  std::shared_ptr<const CpuBlas> open(const std::string& file, const std::vector<SymbolScheme>& schemes, int bits,
                                      int extra_flags = 0) {
    std::string why;
    void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | extra_flags);
    if (handle == nullptr) {
      why = last_dl_error();
    } else if (dlsym(handle, own_marker) != nullptr) {
      why = "it is this library itself";
    } else {
      for (const SymbolScheme& scheme : schemes) {
        std::string reason;
        const auto blas = LoadedBlas::from_handle(handle, scheme, search_.integer_bits, reason);
        if (blas && (bits == 0 || blas->integer_bits() == bits)) return blas;
        if (blas) reason = "its integers have " + std::to_string(blas->integer_bits()) + " bits";
        // If the library does not use a spelling at all, only the first such spelling is reported.
        if (why.empty() || dlsym(handle, scheme.fortran("sgemm").c_str()) != nullptr) why = reason;
      }
    }
    if (handle != nullptr) dlclose(handle);
    tried_ += (tried_.empty() ? "" : "; ") + file + ": " + why;
    return nullptr;
  }

  const std::string& tried() const { return tried_; }

 private:
  const CpuBlasSearch& search_;
  std::string tried_;
};

}  // namespace

std::shared_ptr<const CpuBlas> CpuBlas::open(const std::string& path, const CpuBlasSearch& search) {
  const WithoutCancellation stays;
  const process::Pass pass(process::Work::opening);
  Attempts attempts(search);
#if defined(TESSERA_SANITIZED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const int bind = 0;
#else
  const int bind = search.deep_bind ? RTLD_DEEPBIND : 0;
#endif
  const int must_have = search.all_levels ? search.integer_bits : 0;

  if (!path.empty()) {
    const std::vector<SymbolScheme> any(std::begin(all_schemes), std::end(all_schemes));
    if (auto blas = attempts.open(path, any, must_have, bind)) return blas;
    throw NotAvailable("cannot use the CPU BLAS that was asked for: " + attempts.tried());
  }

  // An open library is not opened once more under another name. NOLOAD: a name that does not lead back to the object (a
  // program with a statically linked BLAS) must not load anything. All functions come from one library, never from
  // several.
  if (search.next_gemm != nullptr) {
    const std::string file = file_of(search.next_gemm);
    if (!file.empty()) {
      if (auto blas = attempts.open(file, {search.scheme}, must_have, RTLD_NOLOAD)) return blas;
    }
  }
  if (search.among_loaded) {
    std::vector<SymbolScheme> schemes{search.scheme};
    if (search.any_spelling) schemes.assign(std::begin(all_schemes), std::end(all_schemes));
    for (const std::string& file : loaded_objects()) {
      if (auto blas = attempts.open(file, schemes, search.any_spelling ? 0 : search.integer_bits, RTLD_NOLOAD))
        return blas;
    }
  }
  for (const int bits : {search.integer_bits, search.integer_bits == 64 ? 32 : 64}) {
    if (must_have != 0 && bits != must_have) continue;
    std::vector<std::string> files;
    if (bits == 64) {
      files.assign(std::begin(candidates_64), std::end(candidates_64));
    } else {
      files.assign(std::begin(candidates_32), std::end(candidates_32));
    }
    std::ranges::move(alternatives(bits == 64 ? "libblas64.so.3" : "libblas.so.3"), std::back_inserter(files));
    for (const std::string& file : files) {
      if (auto blas = attempts.open(file, {plain_symbols, symbols_64_}, bits, bind)) return blas;
    }
  }
  throw NotAvailable("no CPU BLAS found: " + attempts.tried());
}

}  // namespace tessera::kernels
