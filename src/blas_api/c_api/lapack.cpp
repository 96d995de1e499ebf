// Single calls of LAPACK of the own C API (tessera/lapack.h): checks, and exceptions into status codes. Arguments are those of the
// Fortran interfaces (calls/parameters.hpp) in their order, without workspaces and left eigenvectors, and are checked in it.
#include <algorithm>
#include <complex>
#include <optional>

#include "blas_api/c_api/context.hpp"
#include "calls/argument_complaints.hpp"
#include "calls/arguments.hpp"
#include "calls/lapack_arguments.hpp"
#include "calls/lapack_fortran.hpp"
#include "tessera/lapack.h"

using tessera::CArray;
using tessera::index_t;
using tessera::LapackArguments;
using tessera::LapackCall;
using tessera::Parameter;
using tessera::RealOf;
using tessera::require_argument;
using tessera::Routine;
using tessera::Scalar;
using tessera::VectorJob;
using tessera::c_api::guarded;

namespace {

/// The arguments of a call; what a routine does not have stays as it is.
struct Given {
  int itype = 1;
  int vectors = TESSERA_NO_VECTORS;
  int uplo = TESSERA_LOWER;
  int side = TESSERA_LEFT;
  int trans = TESSERA_NO_TRANS;
  int diag = TESSERA_NON_UNIT;
  int64_t m = 0, n = 0, k = 0;
  const void* A = nullptr;
  int64_t lda = 0;
  const void* tau = nullptr;
  const void* ipiv = nullptr;
  void* B = nullptr;
  int64_t ldb = 0;
  void* values = nullptr;
  void* imaginary = nullptr;
  void* U = nullptr;
  int64_t ldu = 0;
  void* VT = nullptr;
  int64_t ldvt = 0;
  double rcond = 0;
  int64_t* found = nullptr;
  int64_t* info = nullptr;
};

/// A transposition as the routine knows it: most take either for the conjugate one of real types.
std::optional<tessera::Op> op_of(Routine routine, bool is_complex, int trans) {
  using tessera::Op;
  const std::optional<Op> op = tessera::op_from_cblas(trans);
  if (!op || *op == Op::no_trans || routine == Routine::trtrs || routine == Routine::getrs) return op;
  if (is_complex && *op == Op::trans) return std::nullopt;
  return Op::conj_trans;
}

void take_vectors(int given, LapackArguments& taken) {
  const bool has_all = taken.called == Routine::gesdd;
  if (given != TESSERA_NO_VECTORS && given != TESSERA_VECTORS && !(has_all && given == TESSERA_ALL_VECTORS))
    taken.set_bad(taken.called == Routine::geev ? Parameter::jobvr : Parameter::jobz);
  LapackCall& p = taken.problem;
  p.vectors = given != TESSERA_NO_VECTORS;
  if (has_all && p.vectors) p.u = p.vt = given == TESSERA_ALL_VECTORS ? VectorJob::all : VectorJob::thin;
}

LapackArguments arguments_of(Routine routine, tessera::ScalarType type, const Given& given) {
  LapackArguments taken{.called = routine, .problem = {}, .bad_letters = {}};
  LapackCall& p = taken.problem;
  p.routine = routine;
  p.type = type;
  take_vectors(given.vectors, taken);
  taken.take(Parameter::uplo, tessera::uplo_from_cblas(given.uplo), p.uplo);
  taken.take(Parameter::side, tessera::side_from_cblas(given.side), p.side);
  taken.take(Parameter::trans, op_of(routine, is_complex(type), given.trans), p.op);
  taken.take(Parameter::diag, tessera::diag_from_cblas(given.diag), p.diag);
  p.itype = given.itype;
  p.n = given.n;
  p.m = has_m(routine) ? given.m : given.n;
  p.k = given.k;
  p.A = const_cast<void*>(given.A);
  p.lda = given.lda;
  p.tau = const_cast<void*>(given.tau);
  p.ipiv = const_cast<void*>(given.ipiv);
  p.B = given.B;
  p.ldb = given.ldb;
  p.values = given.values;
  p.imaginary = given.imaginary;
  p.U = given.U;
  p.ldu = given.ldu;
  p.VT = given.VT;
  p.ldvt = given.ldvt;
  p.rcond = given.rcond;
  return taken;
}

/// LAPACK never has anything to tell.
constexpr bool may_leave_info_out(Routine routine) {
  return (solves(routine) && !factors(routine)) || makes_reflectors(routine);
}

void check(const Given& given, const LapackArguments& taken) {
  const tessera::Parameters parameters = own_parameters_of(taken.called, is_complex(taken.problem.type));
  const int place = first_bad(parameters, taken, tessera::own_limits, [&](Parameter parameter) {
    if (parameter == Parameter::found) return given.found != nullptr;
    return parameter != Parameter::info || given.info != nullptr || may_leave_info_out(taken.called);
  });
  if (place == 0) return;
  const int behind_the_context = place + 1;
  require_argument(
      false, behind_the_context,
      tessera::lapack_complaint(parameters[static_cast<std::size_t>(place - 1)], taken, tessera::own_limits).c_str());
}

/// Computes it, where it does something. The CPU's LAPACK computes what no device takes (sizes of 0 among it).
std::optional<tessera::runtime::JobStatistics> compute(tessera_context ctx, tessera::offload::LapackRun& run,
                                                       tessera::offload::CallTime& time) {
  const LapackCall& p = run.problem;
  if (!does_nothing(p) && tessera::lapack_fortran::is_large_enough(p))
    return ctx->context.run(run, tessera::offload::Fallback::report, nullptr, nullptr, &time);
  if (row_of(p.routine).way != tessera::Way::factors) ctx->context.compute_on_cpu(run);
  return std::nullopt;
}

template <Scalar T>
tessera_status run(tessera_context ctx, Routine routine, const Given& given) noexcept {
  return guarded([&] {
    tessera::offload::CallTime time = tessera::offload::CallTime::from_now();
    require_argument(ctx != nullptr, 1, "ctx is null");
    const LapackArguments taken = arguments_of(routine, tessera::scalar_type_of<T>(), given);
    check(given, taken);

    const std::shared_lock alive(ctx->in_use);
    tessera::offload::LapackRun run{.problem = taken.problem};
    std::optional<tessera::runtime::JobStatistics> job = compute(ctx, run, time);
    if (given.info != nullptr) *given.info = run.info;
    if (given.found != nullptr) *given.found = run.found;
    if (!job) {
      const LapackCall& p = run.problem;
      job.emplace();
      job->routine = name_of(p);  // short enough to need no memory
      job->m = p.m;
      job->n = p.n;
      job->k = p.k;
      job->flops = flops_of(p);
    }
    ctx->set_last(std::move(job), time);
  });
}

template <Scalar T>
using Real = typename RealOf<T>::type;

}  // namespace

extern "C" {

#define TESSERA_RUN(routine, T, ...) return run<T>(ctx, Routine::routine, {__VA_ARGS__})
#define TESSERA_LAPACK_potrf(letter, T)                                                                                \
  tessera_status tessera_##letter##potrf(tessera_context ctx, tessera_uplo uplo, int64_t n, CArray<T>* A, int64_t lda, \
                                         int64_t* info) {                                                              \
    TESSERA_RUN(potrf, T, .uplo = uplo, .n = n, .A = A, .lda = lda, .info = info);                                     \
  }
#define TESSERA_LAPACK_potrs(letter, T)                                                                               \
  tessera_status tessera_##letter##potrs(tessera_context ctx, tessera_uplo uplo, int64_t n, int64_t nrhs,             \
                                         const CArray<T>* A, int64_t lda, CArray<T>* B, int64_t ldb, int64_t* info) { \
    TESSERA_RUN(potrs, T, .uplo = uplo, .n = n, .k = nrhs, .A = A, .lda = lda, .B = B, .ldb = ldb, .info = info);     \
  }
#define TESSERA_LAPACK_posv(letter, T)                                                                                 \
  tessera_status tessera_##letter##posv(tessera_context ctx, tessera_uplo uplo, int64_t n, int64_t nrhs, CArray<T>* A, \
                                        int64_t lda, CArray<T>* B, int64_t ldb, int64_t* info) {                       \
    TESSERA_RUN(posv, T, .uplo = uplo, .n = n, .k = nrhs, .A = A, .lda = lda, .B = B, .ldb = ldb, .info = info);       \
  }
#define TESSERA_LAPACK_getrf(letter, T)                                                                        \
  tessera_status tessera_##letter##getrf(tessera_context ctx, int64_t m, int64_t n, CArray<T>* A, int64_t lda, \
                                         int64_t* ipiv, int64_t* info) {                                       \
    TESSERA_RUN(getrf, T, .m = m, .n = n, .A = A, .lda = lda, .ipiv = ipiv, .info = info);                     \
  }
#define TESSERA_LAPACK_getrs(letter, T)                                                                            \
  tessera_status tessera_##letter##getrs(tessera_context ctx, tessera_transpose trans, int64_t n, int64_t nrhs,    \
                                         const CArray<T>* A, int64_t lda, const int64_t* ipiv, CArray<T>* B,       \
                                         int64_t ldb, int64_t* info) {                                             \
    TESSERA_RUN(getrs, T, .trans = trans, .n = n, .k = nrhs, .A = A, .lda = lda, .ipiv = ipiv, .B = B, .ldb = ldb, \
                .info = info);                                                                                     \
  }
#define TESSERA_LAPACK_gesv(letter, T)                                                                           \
  tessera_status tessera_##letter##gesv(tessera_context ctx, int64_t n, int64_t nrhs, CArray<T>* A, int64_t lda, \
                                        int64_t* ipiv, CArray<T>* B, int64_t ldb, int64_t* info) {               \
    TESSERA_RUN(gesv, T, .n = n, .k = nrhs, .A = A, .lda = lda, .ipiv = ipiv, .B = B, .ldb = ldb, .info = info); \
  }
#define TESSERA_LAPACK_geqrf(letter, T)                                                                        \
  tessera_status tessera_##letter##geqrf(tessera_context ctx, int64_t m, int64_t n, CArray<T>* A, int64_t lda, \
                                         CArray<T>* tau, int64_t* info) {                                      \
    TESSERA_RUN(geqrf, T, .m = m, .n = n, .A = A, .lda = lda, .tau = tau, .info = info);                       \
  }
#define TESSERA_LAPACK_gelqf(letter, T)                                                                        \
  tessera_status tessera_##letter##gelqf(tessera_context ctx, int64_t m, int64_t n, CArray<T>* A, int64_t lda, \
                                         CArray<T>* tau, int64_t* info) {                                      \
    TESSERA_RUN(gelqf, T, .m = m, .n = n, .A = A, .lda = lda, .tau = tau, .info = info);                       \
  }
#define TESSERA_FACTOR_FUNCTIONS(letter, T)                                                          \
  TESSERA_LAPACK_potrf(letter, T) TESSERA_LAPACK_potrs(letter, T) TESSERA_LAPACK_posv(letter, T)     \
      TESSERA_LAPACK_getrf(letter, T) TESSERA_LAPACK_getrs(letter, T) TESSERA_LAPACK_gesv(letter, T) \
          TESSERA_LAPACK_geqrf(letter, T) TESSERA_LAPACK_gelqf(letter, T)
TESSERA_FACTOR_FUNCTIONS(s, float)
TESSERA_FACTOR_FUNCTIONS(d, double)
TESSERA_FACTOR_FUNCTIONS(c, std::complex<float>)
TESSERA_FACTOR_FUNCTIONS(z, std::complex<double>)

#define TESSERA_DENSE_FUNCTIONS(letter, T, symmetric, orthogonal)                                                      \
  tessera_status tessera_##letter##symmetric##evd(tessera_context ctx, tessera_vectors vectors, tessera_uplo uplo,     \
                                                  int64_t n, CArray<T>* A, int64_t lda, Real<T>* w, int64_t* info) {   \
    TESSERA_RUN(heevd, T, .vectors = vectors, .uplo = uplo, .n = n, .A = A, .lda = lda, .values = w, .info = info);    \
  }                                                                                                                    \
  tessera_status tessera_##letter##symmetric##gvd(tessera_context ctx, int itype, tessera_vectors vectors,             \
                                                  tessera_uplo uplo, int64_t n, CArray<T>* A, int64_t lda,             \
                                                  CArray<T>* B, int64_t ldb, Real<T>* w, int64_t* info) {              \
    TESSERA_RUN(hegvd, T, .itype = itype, .vectors = vectors, .uplo = uplo, .n = n, .A = A, .lda = lda, .B = B,        \
                .ldb = ldb, .values = w, .info = info);                                                                \
  }                                                                                                                    \
  tessera_status tessera_##letter##gesdd(tessera_context ctx, tessera_vectors vectors, int64_t m, int64_t n,           \
                                         CArray<T>* A, int64_t lda, Real<T>* s, CArray<T>* U, int64_t ldu,             \
                                         CArray<T>* VT, int64_t ldvt, int64_t* info) {                                 \
    TESSERA_RUN(gesdd, T, .vectors = vectors, .m = m, .n = n, .A = A, .lda = lda, .values = s, .U = U, .ldu = ldu,     \
                .VT = VT, .ldvt = ldvt, .info = info);                                                                 \
  }                                                                                                                    \
  tessera_status tessera_##letter##gels(tessera_context ctx, tessera_transpose trans, int64_t m, int64_t n,            \
                                        int64_t nrhs, CArray<T>* A, int64_t lda, CArray<T>* B, int64_t ldb,            \
                                        int64_t* info) {                                                               \
    TESSERA_RUN(gels, T, .trans = trans, .m = m, .n = n, .k = nrhs, .A = A, .lda = lda, .B = B, .ldb = ldb,            \
                .info = info);                                                                                         \
  }                                                                                                                    \
  tessera_status tessera_##letter##gelsd(tessera_context ctx, int64_t m, int64_t n, int64_t nrhs, CArray<T>* A,        \
                                         int64_t lda, CArray<T>* B, int64_t ldb, Real<T>* s, Real<T> rcond,            \
                                         int64_t* rank, int64_t* info) {                                               \
    TESSERA_RUN(gelsd, T, .m = m, .n = n, .k = nrhs, .A = A, .lda = lda, .B = B, .ldb = ldb, .values = s,              \
                .rcond = rcond, .found = rank, .info = info);                                                          \
  }                                                                                                                    \
  tessera_status tessera_##letter##orthogonal##gqr(tessera_context ctx, int64_t m, int64_t n, int64_t k, CArray<T>* A, \
                                                   int64_t lda, const CArray<T>* tau, int64_t* info) {                 \
    TESSERA_RUN(ungqr, T, .m = m, .n = n, .k = k, .A = A, .lda = lda, .tau = tau, .info = info);                       \
  }                                                                                                                    \
  tessera_status tessera_##letter##orthogonal##glq(tessera_context ctx, int64_t m, int64_t n, int64_t k, CArray<T>* A, \
                                                   int64_t lda, const CArray<T>* tau, int64_t* info) {                 \
    TESSERA_RUN(unglq, T, .m = m, .n = n, .k = k, .A = A, .lda = lda, .tau = tau, .info = info);                       \
  }                                                                                                                    \
  tessera_status tessera_##letter##orthogonal##mqr(tessera_context ctx, tessera_side side, tessera_transpose trans,    \
                                                   int64_t m, int64_t n, int64_t k, const CArray<T>* A, int64_t lda,   \
                                                   const CArray<T>* tau, CArray<T>* C, int64_t ldc, int64_t* info) {   \
    TESSERA_RUN(unmqr, T, .side = side, .trans = trans, .m = m, .n = n, .k = k, .A = A, .lda = lda, .tau = tau,        \
                .B = C, .ldb = ldc, .info = info);                                                                     \
  }                                                                                                                    \
  tessera_status tessera_##letter##trtrs(tessera_context ctx, tessera_uplo uplo, tessera_transpose trans,              \
                                         tessera_diag diag, int64_t n, int64_t nrhs, const CArray<T>* A, int64_t lda,  \
                                         CArray<T>* B, int64_t ldb, int64_t* info) {                                   \
    TESSERA_RUN(trtrs, T, .uplo = uplo, .trans = trans, .diag = diag, .n = n, .k = nrhs, .A = A, .lda = lda, .B = B,   \
                .ldb = ldb, .info = info);                                                                             \
  }                                                                                                                    \
  tessera_status tessera_##letter##trtri(tessera_context ctx, tessera_uplo uplo, tessera_diag diag, int64_t n,         \
                                         CArray<T>* A, int64_t lda, int64_t* info) {                                   \
    TESSERA_RUN(trtri, T, .uplo = uplo, .diag = diag, .n = n, .A = A, .lda = lda, .info = info);                       \
  }                                                                                                                    \
  tessera_status tessera_##letter##potri(tessera_context ctx, tessera_uplo uplo, int64_t n, CArray<T>* A, int64_t lda, \
                                         int64_t* info) {                                                              \
    TESSERA_RUN(potri, T, .uplo = uplo, .n = n, .A = A, .lda = lda, .info = info);                                     \
  }                                                                                                                    \
  tessera_status tessera_##letter##getri(tessera_context ctx, int64_t n, CArray<T>* A, int64_t lda,                    \
                                         const int64_t* ipiv, int64_t* info) {                                         \
    TESSERA_RUN(getri, T, .n = n, .A = A, .lda = lda, .ipiv = ipiv, .info = info);                                     \
  }
TESSERA_DENSE_FUNCTIONS(s, float, sy, or)
TESSERA_DENSE_FUNCTIONS(d, double, sy, or)
TESSERA_DENSE_FUNCTIONS(c, std::complex<float>, he, un)
TESSERA_DENSE_FUNCTIONS(z, std::complex<double>, he, un)

#define TESSERA_REAL_GEEV(letter, T)                                                                                \
  tessera_status tessera_##letter##geev(tessera_context ctx, tessera_vectors vectors, int64_t n, T* A, int64_t lda, \
                                        T* wr, T* wi, T* VR, int64_t ldvr, int64_t* info) {                         \
    TESSERA_RUN(geev, T, .vectors = vectors, .n = n, .A = A, .lda = lda, .values = wr, .imaginary = wi, .U = VR,    \
                .ldu = ldvr, .info = info);                                                                         \
  }
#define TESSERA_COMPLEX_GEEV(letter, T)                                                                                \
  tessera_status tessera_##letter##geev(tessera_context ctx, tessera_vectors vectors, int64_t n, void* A, int64_t lda, \
                                        void* w, void* VR, int64_t ldvr, int64_t* info) {                              \
    TESSERA_RUN(geev, T, .vectors = vectors, .n = n, .A = A, .lda = lda, .values = w, .U = VR, .ldu = ldvr,            \
                .info = info);                                                                                         \
  }
TESSERA_REAL_GEEV(s, float)
TESSERA_REAL_GEEV(d, double)
TESSERA_COMPLEX_GEEV(c, std::complex<float>)
TESSERA_COMPLEX_GEEV(z, std::complex<double>)

#define TESSERA_INDEFINITE_FUNCTIONS(letter, T, symmetric)                                                            \
  tessera_status tessera_##letter##symmetric##trf(tessera_context ctx, tessera_uplo uplo, int64_t n, CArray<T>* A,    \
                                                  int64_t lda, int64_t* ipiv, int64_t* info) {                        \
    TESSERA_RUN(symmetric##trf, T, .uplo = uplo, .n = n, .A = A, .lda = lda, .ipiv = ipiv, .info = info);             \
  }                                                                                                                   \
  tessera_status tessera_##letter##symmetric##trs(tessera_context ctx, tessera_uplo uplo, int64_t n, int64_t nrhs,    \
                                                  const CArray<T>* A, int64_t lda, const int64_t* ipiv, CArray<T>* B, \
                                                  int64_t ldb, int64_t* info) {                                       \
    TESSERA_RUN(symmetric##trs, T, .uplo = uplo, .n = n, .k = nrhs, .A = A, .lda = lda, .ipiv = ipiv, .B = B,         \
                .ldb = ldb, .info = info);                                                                            \
  }                                                                                                                   \
  tessera_status tessera_##letter##symmetric##sv(tessera_context ctx, tessera_uplo uplo, int64_t n, int64_t nrhs,     \
                                                 CArray<T>* A, int64_t lda, int64_t* ipiv, CArray<T>* B, int64_t ldb, \
                                                 int64_t* info) {                                                     \
    TESSERA_RUN(symmetric##sv, T, .uplo = uplo, .n = n, .k = nrhs, .A = A, .lda = lda, .ipiv = ipiv, .B = B,          \
                .ldb = ldb, .info = info);                                                                            \
  }
TESSERA_INDEFINITE_FUNCTIONS(s, float, sy)
TESSERA_INDEFINITE_FUNCTIONS(d, double, sy)
TESSERA_INDEFINITE_FUNCTIONS(c, std::complex<float>, sy)
TESSERA_INDEFINITE_FUNCTIONS(z, std::complex<double>, sy)
TESSERA_INDEFINITE_FUNCTIONS(c, std::complex<float>, he)
TESSERA_INDEFINITE_FUNCTIONS(z, std::complex<double>, he)

}  // extern "C"
