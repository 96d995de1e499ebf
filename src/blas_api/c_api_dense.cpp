// Problems of LAPACK that one device may solve whole, of the own C API (tessera/lapack.h): checks, and exceptions into status
// codes. Arguments are those of the Fortran interfaces (core/dense_parameters.hpp) in their order, without workspaces and left
// eigenvectors, and are checked in it. What no device takes (sizes of 0 among it) the CPU's LAPACK computes.
#include <algorithm>
#include <complex>
#include <limits>
#include <optional>

#include "blas_api/c_api_context.hpp"
#include "core/addressable.hpp"
#include "core/arguments.hpp"
#include "core/dense_interface.hpp"
#include "tessera/lapack.h"

using tessera::CArray;
using tessera::DenseEntry;
using tessera::DenseParameter;
using tessera::DenseProblem;
using tessera::index_t;
using tessera::RealOf;
using tessera::require_argument;
using tessera::Scalar;
using tessera::VectorJob;
using tessera::api::guarded;

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

bool is_for_the_caller(DenseParameter parameter) {
  using enum DenseParameter;
  switch (parameter) {
    case jobvl:
    case left:
    case ldleft:
    case work:
    case lwork:
    case rwork:
    case lrwork:
    case iwork:
    case liwork:
      return false;
    default:
      return true;
  }
}

const char* complaint_of(DenseParameter parameter) {
  using enum DenseParameter;
  switch (parameter) {
    case itype:
      return "itype is none of 1, 2, 3";
    case jobz:
    case jobvr:
      return "vectors is no tessera_vectors that the routine has";
    case uplo:
      return "uplo is neither TESSERA_UPPER nor TESSERA_LOWER";
    case side:
      return "side is neither TESSERA_LEFT nor TESSERA_RIGHT";
    case trans:
      return "trans is no tessera_transpose that the routine has for this type";
    case diag:
      return "diag is neither TESSERA_UNIT nor TESSERA_NON_UNIT";
    case m:
    case n:
    case k:
      return "a size is negative, does not suit the other ones, or is 2^31 or larger";
    case lda:
    case ldb:
    case ldu:
    case ldvt:
      return "a leading dimension is smaller than the rows of its matrix (or 1), or leads beyond any memory";
    default:
      return "an address is null";
  }
}

/// As the routine has it.
bool is_good_job(DenseEntry entry, int vectors) {
  return vectors == TESSERA_NO_VECTORS || vectors == TESSERA_VECTORS ||
         (vectors == TESSERA_ALL_VECTORS && entry == DenseEntry::gesdd);
}

bool is_good_op(DenseEntry entry, bool is_complex, int trans) {
  const std::optional<tessera::Op> op = tessera::op_from_cblas(trans);
  if (!op || *op == tessera::Op::no_trans || entry == DenseEntry::trtrs) return op.has_value();
  return !is_complex || *op == tessera::Op::conj_trans;
}

bool is_good_size(DenseEntry entry, DenseParameter parameter, const Given& given, const DenseProblem& p) {
  const index_t size = parameter == DenseParameter::m ? given.m : parameter == DenseParameter::n ? given.n : given.k;
  if (size < 0 || size > std::numeric_limits<std::int32_t>::max()) return false;
  if (entry == DenseEntry::orgqr && parameter == DenseParameter::n) return size <= given.m;
  if (entry == DenseEntry::orgqr && parameter == DenseParameter::k) return size <= given.n;
  if (entry == DenseEntry::ormqr && parameter == DenseParameter::k) return size <= reflected_of(p);
  return true;
}

/// Whether the operand at a slot, if there is one, has an address, or a leading dimension that spans its rows and with
/// which all of it can be addressed.
bool is_good_operand(tessera::DenseSlot slot, bool of_ld, const DenseProblem& p) {
  for (const tessera::DenseOperand& operand : tessera::DenseOperands(p)) {
    if (operand.slot != slot) continue;
    if (!of_ld) return operand.address != nullptr || operand.rows == 0 || operand.cols == 0;
    return operand.ld >= std::max<index_t>(operand.rows, 1) &&
           tessera::is_addressable(operand.rows, operand.cols, operand.ld,
                                   static_cast<std::size_t>(operand.element_bytes));
  }
  return true;
}

/// @param p as far as it is described by what is given
bool is_good(DenseEntry entry, DenseParameter parameter, const Given& given, const DenseProblem& p) {
  using enum DenseParameter;
  using tessera::DenseSlot;
  switch (parameter) {
    case itype:
      return given.itype >= 1 && given.itype <= 3;
    case jobz:
    case jobvr:
      return is_good_job(entry, given.vectors);
    case uplo:
      return tessera::uplo_from_cblas(given.uplo).has_value();
    case side:
      return tessera::side_from_cblas(given.side).has_value();
    case trans:
      return is_good_op(entry, is_complex(p.type), given.trans);
    case diag:
      return tessera::diag_from_cblas(given.diag).has_value();
    case m:
    case n:
    case k:
      return is_good_size(entry, parameter, given, p);
    case A:
      return is_good_operand(DenseSlot::A, false, p);
    case lda:
      return is_good_operand(DenseSlot::A, true, p);
    case B:
      return is_good_operand(DenseSlot::B, false, p);
    case ldb:
      return is_good_operand(DenseSlot::B, true, p);
    case U:
      return is_good_operand(DenseSlot::U, false, p);
    case ldu:
      return is_good_operand(DenseSlot::U, true, p);
    case VT:
      return is_good_operand(DenseSlot::VT, false, p);
    case ldvt:
      return is_good_operand(DenseSlot::VT, true, p);
    case tau:
      return is_good_operand(DenseSlot::tau, false, p);
    case ipiv:
      return is_good_operand(DenseSlot::ipiv, false, p);
    case values:
      return is_good_operand(DenseSlot::values, false, p);
    case imaginary:
      return is_good_operand(DenseSlot::imaginary, false, p);
    case found:
      return given.found != nullptr;
    case info:
      return given.info != nullptr;
    default:
      return true;
  }
}

/// Sizes that are too small count as 0, so that what is said of operands has a meaning.
DenseProblem problem_of(DenseEntry entry, tessera::ScalarType type, const Given& given) {
  const auto size = [](int64_t given_size) { return std::max<index_t>(given_size, 0); };
  const bool has_m = entry == DenseEntry::gesdd || entry == DenseEntry::gels || entry == DenseEntry::gelsd ||
                     entry == DenseEntry::orgqr || entry == DenseEntry::ormqr;
  DenseProblem p;
  p.routine = tessera::dense_interface::routine_of(entry);
  p.type = type;
  p.itype = given.itype;
  p.vectors = given.vectors != TESSERA_NO_VECTORS;
  if (entry == DenseEntry::gesdd && p.vectors)
    p.u = p.vt = given.vectors == TESSERA_ALL_VECTORS ? VectorJob::all : VectorJob::thin;
  p.uplo = tessera::uplo_from_cblas(given.uplo).value_or(p.uplo);
  p.side = tessera::side_from_cblas(given.side).value_or(p.side);
  p.op = tessera::op_from_cblas(given.trans).value_or(p.op);
  if (entry != DenseEntry::trtrs && p.op == tessera::Op::trans) p.op = tessera::Op::conj_trans;
  p.diag = tessera::diag_from_cblas(given.diag).value_or(p.diag);
  p.n = size(given.n);
  p.m = has_m ? size(given.m) : p.n;
  p.k = size(given.k);
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
  return p;
}

void check(DenseEntry entry, const Given& given, const DenseProblem& p) {
  int place = 1;
  for (const DenseParameter parameter : dense_parameters_of(entry, is_complex(p.type))) {
    if (parameter == DenseParameter::none) break;
    if (!is_for_the_caller(parameter)) continue;
    ++place;  // behind the context
    require_argument(is_good(entry, parameter, given, p), place, complaint_of(parameter));
  }
}

template <Scalar T>
tessera_status run(tessera_context ctx, DenseEntry entry, const Given& given) noexcept {
  return guarded([&] {
    tessera::api::CallTime time = tessera::api::CallTime::from_now();
    require_argument(ctx != nullptr, 1, "ctx is null");
    tessera::api::DenseRun dense{.problem = problem_of(entry, tessera::scalar_type_of<T>(), given)};
    check(entry, given, dense.problem);

    const std::shared_lock alive(ctx->in_use);
    std::optional<tessera::runtime::JobStatistics> job;
    if (tessera::dense_interface::has_good_sizes(entry, dense.problem) &&
        tessera::dense_interface::is_large_enough(dense.problem))
      job = ctx->context.run(dense, tessera::api::Fallback::report, nullptr, nullptr, &time);
    else
      ctx->context.compute_on_cpu(dense);
    *given.info = dense.info;
    if (given.found != nullptr) *given.found = dense.found;
    if (!job) {
      const DenseProblem& p = dense.problem;
      job.emplace();
      job->routine = name_of(p);  // short enough to need no memory
      job->m = p.m;
      job->n = p.n;
      job->k = p.k;
      job->flops = dense_flops(p);
    }
    ctx->set_last(std::move(job), time);
  });
}

template <Scalar T>
using Real = typename RealOf<T>::type;

}  // namespace

extern "C" {

#define TESSERA_RUN(entry, T, ...) return run<T>(ctx, DenseEntry::entry, {__VA_ARGS__})
#define TESSERA_DENSE_FUNCTIONS(letter, T, symmetric, orthogonal)                                                      \
  tessera_status tessera_##letter##symmetric##evd(tessera_context ctx, tessera_vectors vectors, tessera_uplo uplo,     \
                                                  int64_t n, CArray<T>* A, int64_t lda, Real<T>* w, int64_t* info) {   \
    TESSERA_RUN(syevd, T, .vectors = vectors, .uplo = uplo, .n = n, .A = A, .lda = lda, .values = w, .info = info);    \
  }                                                                                                                    \
  tessera_status tessera_##letter##symmetric##gvd(tessera_context ctx, int itype, tessera_vectors vectors,             \
                                                  tessera_uplo uplo, int64_t n, CArray<T>* A, int64_t lda,             \
                                                  CArray<T>* B, int64_t ldb, Real<T>* w, int64_t* info) {              \
    TESSERA_RUN(sygvd, T, .itype = itype, .vectors = vectors, .uplo = uplo, .n = n, .A = A, .lda = lda, .B = B,        \
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
    TESSERA_RUN(orgqr, T, .m = m, .n = n, .k = k, .A = A, .lda = lda, .tau = tau, .info = info);                       \
  }                                                                                                                    \
  tessera_status tessera_##letter##orthogonal##mqr(tessera_context ctx, tessera_side side, tessera_transpose trans,    \
                                                   int64_t m, int64_t n, int64_t k, const CArray<T>* A, int64_t lda,   \
                                                   const CArray<T>* tau, CArray<T>* C, int64_t ldc, int64_t* info) {   \
    TESSERA_RUN(ormqr, T, .side = side, .trans = trans, .m = m, .n = n, .k = k, .A = A, .lda = lda, .tau = tau,        \
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

}  // extern "C"
