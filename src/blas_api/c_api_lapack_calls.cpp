// Single calls of LAPACK of the own C API (tessera/lapack.h): checks, and exceptions into status codes. Arguments are
// checked in the caller's order. The functions come from core/lapack_routines.def; how their parameters are declared
// depends on the routine only.
#include <algorithm>
#include <complex>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "blas_api/c_api_context.hpp"
#include "core/addressable.hpp"
#include "core/arguments.hpp"
#include "core/lapack_call.hpp"
#include "tessera/lapack.h"

using tessera::CArray;
using tessera::index_t;
using tessera::LapackCall;
using tessera::LapackCallRoutine;
using tessera::LapackParameter;
using tessera::require_argument;
using tessera::Scalar;
using tessera::api::guarded;

namespace {

/// The arguments of a call; what a routine does not have stays as it is.
struct Given {
  int uplo = TESSERA_LOWER;
  int trans = TESSERA_NO_TRANS;
  int64_t m = 0, n = 0, nrhs = 0;
  const void* A = nullptr;
  int64_t lda = 0;
  const void* ipiv = nullptr;
  const void* B = nullptr;
  int64_t ldb = 0;
  void* tau = nullptr;
  int64_t* info = nullptr;
};

/// Behind the context. geqrf has tau where Fortran has it, and no workspace.
constexpr int place_of(LapackCallRoutine routine, LapackParameter parameter) {
  constexpr int place_of_info_of_geqrf = 7;
  if (routine == LapackCallRoutine::geqrf && parameter == LapackParameter::info) return place_of_info_of_geqrf;
  return position_of(routine, parameter) + 1;
}
constexpr int place_of_tau = 6;

const char* complaint_of(LapackParameter parameter) {
  switch (parameter) {
    case LapackParameter::uplo:
      return "uplo is neither TESSERA_UPPER nor TESSERA_LOWER";
    case LapackParameter::trans:
      return "trans is none of TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS";
    case LapackParameter::m:
      return "m is negative, or larger than pivots and info can tell";
    case LapackParameter::n:
      return "n is negative, or larger than pivots and info can tell";
    case LapackParameter::nrhs:
      return "nrhs is negative, or 2^31 or larger";
    case LapackParameter::A:
      return "A is null";
    case LapackParameter::lda:
      return "lda is smaller than the rows of A (or 1), or leads beyond any memory";
    case LapackParameter::ipiv:
      return "ipiv is null";
    case LapackParameter::B:
      return "B is null";
    case LapackParameter::ldb:
      return "ldb is smaller than the rows of B (or 1), or leads beyond any memory";
    case LapackParameter::info:
      return "info is null";
    default:
      return "is not valid";
  }
}

/// What is asked of one parameter. @param call as far as it is described by what is given
bool is_good(LapackParameter parameter, const Given& given, const LapackCall& call) {
  constexpr index_t most = std::numeric_limits<int>::max();
  const bool has_matrix = call.n > 0 && call.m > 0;
  // Negative sizes are complained of by themselves.
  const auto is_reached = [&](index_t rows, index_t cols, index_t ld) {
    return rows < 0 || cols < 0 || tessera::is_addressable(rows, cols, ld, element_bytes(call.type));
  };
  switch (parameter) {
    case LapackParameter::uplo:
      return tessera::uplo_from_cblas(given.uplo).has_value();
    case LapackParameter::trans:
      return tessera::op_from_cblas(given.trans).has_value();
    case LapackParameter::m:
      return call.m >= 0 && call.m <= most;
    case LapackParameter::n:
      return call.n >= 0 && call.n <= most;
    case LapackParameter::nrhs:
      return call.nrhs >= 0 && call.nrhs <= most;
    case LapackParameter::A:
      return given.A != nullptr || !has_matrix || does_nothing(call);
    case LapackParameter::lda:
      return call.lda >= std::max<index_t>(call.m, 1) && is_reached(call.m, call.n, call.lda);
    case LapackParameter::ipiv:
      return given.ipiv != nullptr || !has_matrix || does_nothing(call);
    case LapackParameter::B:
      return given.B != nullptr || call.n <= 0 || call.nrhs <= 0;
    case LapackParameter::ldb:
      return call.ldb >= std::max<index_t>(call.n, 1) && is_reached(call.n, call.nrhs, call.ldb);
    case LapackParameter::info:
      return given.info != nullptr || !factors(call.routine) || call.routine == LapackCallRoutine::geqrf;
    default:
      return true;
  }
}

void check(const Given& given, const LapackCall& call) {
  using enum LapackParameter;
  std::pair<int, LapackParameter> first = {std::numeric_limits<int>::max(), none};
  for (const LapackParameter parameter : {uplo, trans, m, n, nrhs, A, lda, ipiv, B, ldb, info}) {
    if (position_of(call.routine, parameter) == 0 || is_good(parameter, given, call)) continue;
    first = std::min(first, {place_of(call.routine, parameter), parameter});
  }
  const bool lacks_tau = call.routine == LapackCallRoutine::geqrf && given.tau == nullptr && !does_nothing(call);
  if (lacks_tau && place_of_tau < first.first) require_argument(false, place_of_tau, "tau is null");
  require_argument(first.second == none, first.first, complaint_of(first.second));
}

template <Scalar T>
tessera_status run(tessera_context ctx, LapackCallRoutine routine, const Given& given) noexcept {
  return guarded([&] {
    tessera::api::CallTime time = tessera::api::CallTime::from_now();
    require_argument(ctx != nullptr, 1, "ctx is null");
    LapackCall call;
    call.routine = routine;
    call.type = tessera::scalar_type_of<T>();
    call.n = given.n;
    call.m = has_m(routine) ? given.m : given.n;
    call.nrhs = given.nrhs;
    call.A = const_cast<void*>(given.A);
    call.lda = given.lda;
    call.B = const_cast<void*>(given.B);
    call.ldb = given.ldb;
    call.ipiv = const_cast<void*>(given.ipiv);
    call.ipiv_bits = 64;
    call.tau = given.tau;
    check(given, call);
    call.uplo = *tessera::uplo_from_cblas(given.uplo);
    call.op = *tessera::op_from_cblas(given.trans);

    const std::shared_lock alive(ctx->in_use);
    std::optional<tessera::runtime::JobStatistics> job;
    if (!does_nothing(call)) job = ctx->context.run(call, tessera::api::Fallback::report, nullptr, nullptr, &time);
    if (given.info != nullptr) *given.info = call.info;
    if (!job) {
      job.emplace();
      job->routine = name_of(call);  // short enough to need no memory
      job->m = call.m;
      job->n = call.n;
      job->flops = flops_of(call);
    }
    ctx->set_last(std::move(job), time);
  });
}

}  // namespace

extern "C" {

#define TESSERA_RUN(routine, T, ...) return run<T>(ctx, tessera::LapackCallRoutine::routine, {__VA_ARGS__})
#define TESSERA_LAPACK_potrf(letter, T)                                                                                \
  tessera_status tessera_##letter##potrf(tessera_context ctx, tessera_uplo uplo, int64_t n, CArray<T>* A, int64_t lda, \
                                         int64_t* info) {                                                              \
    TESSERA_RUN(potrf, T, .uplo = uplo, .n = n, .A = A, .lda = lda, .info = info);                                     \
  }
#define TESSERA_LAPACK_potrs(letter, T)                                                                               \
  tessera_status tessera_##letter##potrs(tessera_context ctx, tessera_uplo uplo, int64_t n, int64_t nrhs,             \
                                         const CArray<T>* A, int64_t lda, CArray<T>* B, int64_t ldb, int64_t* info) { \
    TESSERA_RUN(potrs, T, .uplo = uplo, .n = n, .nrhs = nrhs, .A = A, .lda = lda, .B = B, .ldb = ldb, .info = info);  \
  }
#define TESSERA_LAPACK_posv(letter, T)                                                                                 \
  tessera_status tessera_##letter##posv(tessera_context ctx, tessera_uplo uplo, int64_t n, int64_t nrhs, CArray<T>* A, \
                                        int64_t lda, CArray<T>* B, int64_t ldb, int64_t* info) {                       \
    TESSERA_RUN(posv, T, .uplo = uplo, .n = n, .nrhs = nrhs, .A = A, .lda = lda, .B = B, .ldb = ldb, .info = info);    \
  }
#define TESSERA_LAPACK_getrf(letter, T)                                                                        \
  tessera_status tessera_##letter##getrf(tessera_context ctx, int64_t m, int64_t n, CArray<T>* A, int64_t lda, \
                                         int64_t* ipiv, int64_t* info) {                                       \
    TESSERA_RUN(getrf, T, .m = m, .n = n, .A = A, .lda = lda, .ipiv = ipiv, .info = info);                     \
  }
#define TESSERA_LAPACK_getrs(letter, T)                                                                               \
  tessera_status tessera_##letter##getrs(tessera_context ctx, tessera_transpose trans, int64_t n, int64_t nrhs,       \
                                         const CArray<T>* A, int64_t lda, const int64_t* ipiv, CArray<T>* B,          \
                                         int64_t ldb, int64_t* info) {                                                \
    TESSERA_RUN(getrs, T, .trans = trans, .n = n, .nrhs = nrhs, .A = A, .lda = lda, .ipiv = ipiv, .B = B, .ldb = ldb, \
                .info = info);                                                                                        \
  }
#define TESSERA_LAPACK_gesv(letter, T)                                                                              \
  tessera_status tessera_##letter##gesv(tessera_context ctx, int64_t n, int64_t nrhs, CArray<T>* A, int64_t lda,    \
                                        int64_t* ipiv, CArray<T>* B, int64_t ldb, int64_t* info) {                  \
    TESSERA_RUN(gesv, T, .n = n, .nrhs = nrhs, .A = A, .lda = lda, .ipiv = ipiv, .B = B, .ldb = ldb, .info = info); \
  }
#define TESSERA_LAPACK_geqrf(letter, T)                                                                        \
  tessera_status tessera_##letter##geqrf(tessera_context ctx, int64_t m, int64_t n, CArray<T>* A, int64_t lda, \
                                         CArray<T>* tau, int64_t* info) {                                      \
    TESSERA_RUN(geqrf, T, .m = m, .n = n, .A = A, .lda = lda, .tau = tau, .info = info);                       \
  }
#define TESSERA_ROUTINE(routine, letter, T) TESSERA_LAPACK_##routine(letter, T)
#include "core/lapack_routines.def"
#undef TESSERA_ROUTINE

}  // extern "C"
