// The Fortran interfaces of LAPACK's routines that a device may solve whole (dense_problem.hpp): what stands at which
// position, and the problem that good arguments make. Pure, and of either integer width.
//
// What is not plainly a problem is left to the LAPACK behind: bad arguments, of which it has to complain itself, queries
// for the size of workspace, less workspace than they insist on, quick returns, left eigenvectors.
//
// Source: LAPACK 3.12, the documentation of each routine.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/arguments.hpp"
#include "core/dense_problem.hpp"
#include "core/dense_results.hpp"

namespace tessera {

/// Interfaces, by the names of real types; several lead to one routine of dense_problem.hpp.
enum class DenseEntry : std::uint8_t {
  syev,
  syevd,
  syevr,
  syevx,
  sygv,
  sygvd,
  gesdd,
  gesvd,
  geev,
  orgqr,
  ormqr,
  trtri,
  potri
};

/// What stands at a position; `none` behind the last.
enum class DenseParameter : std::uint8_t {
  none,
  itype,
  jobz,
  jobu,
  jobvt,
  jobvl,
  jobvr,
  range,
  uplo,
  side,
  trans,
  diag,
  m,
  n,
  k,
  A,
  lda,
  B,
  ldb,
  tau,
  vl,
  vu,
  il,
  iu,
  abstol,
  found,
  values,
  imaginary,
  U,
  ldu,
  VT,
  ldvt,
  left,
  ldleft,
  support,
  work,
  lwork,
  rwork,
  lrwork,
  iwork,
  liwork,
  ifail,
  info
};

inline constexpr std::size_t most_dense_parameters = 24;
using DenseParameters = std::array<DenseParameter, most_dense_parameters + 1>;

/// Position 1 first.
constexpr DenseParameters dense_parameters_of(DenseEntry entry, bool is_complex) {
  using enum DenseParameter;
  switch (entry) {
    case DenseEntry::syev:
      if (is_complex) return {jobz, uplo, n, A, lda, values, work, lwork, rwork, info};
      return {jobz, uplo, n, A, lda, values, work, lwork, info};
    case DenseEntry::syevd:
      if (is_complex) return {jobz, uplo, n, A, lda, values, work, lwork, rwork, lrwork, iwork, liwork, info};
      return {jobz, uplo, n, A, lda, values, work, lwork, iwork, liwork, info};
    case DenseEntry::syevr:
      if (is_complex) {
        return {jobz,   range, uplo, n,       A,    lda,   vl,    vu,     il,    iu,     abstol, found,
                values, U,     ldu,  support, work, lwork, rwork, lrwork, iwork, liwork, info};
      }
      return {jobz,  range,  uplo, n,   A,       lda,  vl,    vu,    il,     iu,  abstol,
              found, values, U,    ldu, support, work, lwork, iwork, liwork, info};
    case DenseEntry::syevx:
      if (is_complex) {
        return {jobz,  range,  uplo, n,   A,    lda,   vl,    vu,    il,    iu,  abstol,
                found, values, U,    ldu, work, lwork, rwork, iwork, ifail, info};
      }
      return {jobz,   range, uplo,   n, A,   lda,  vl,    vu,    il,    iu,
              abstol, found, values, U, ldu, work, lwork, iwork, ifail, info};
    case DenseEntry::sygv:
      if (is_complex) return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, rwork, info};
      return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, info};
    case DenseEntry::sygvd:
      if (is_complex)
        return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, rwork, lrwork, iwork, liwork, info};
      return {itype, jobz, uplo, n, A, lda, B, ldb, values, work, lwork, iwork, liwork, info};
    case DenseEntry::gesdd:
      if (is_complex) return {jobz, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, rwork, iwork, info};
      return {jobz, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, iwork, info};
    case DenseEntry::gesvd:
      if (is_complex) return {jobu, jobvt, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, rwork, info};
      return {jobu, jobvt, m, n, A, lda, values, U, ldu, VT, ldvt, work, lwork, info};
    case DenseEntry::geev:
      if (is_complex) return {jobvl, jobvr, n, A, lda, values, left, ldleft, U, ldu, work, lwork, rwork, info};
      return {jobvl, jobvr, n, A, lda, values, imaginary, left, ldleft, U, ldu, work, lwork, info};
    case DenseEntry::orgqr:
      return {m, n, k, A, lda, tau, work, lwork, info};
    case DenseEntry::ormqr:
      return {side, trans, m, n, k, A, lda, tau, B, ldb, work, lwork, info};
    case DenseEntry::trtri:
      return {uplo, diag, n, A, lda, info};
    case DenseEntry::potri:
      return {uplo, n, A, lda, info};
  }
  return {};
}

/// Arguments that are letters: as many lengths stand behind all others.
constexpr std::size_t letters_of(DenseEntry entry) {
  using enum DenseParameter;
  const DenseParameters parameters = dense_parameters_of(entry, false);
  return static_cast<std::size_t>(std::count_if(parameters.begin(), parameters.end(), [](DenseParameter parameter) {
    return (parameter >= jobz && parameter <= diag);
  }));
}

namespace dense_interface {

template <class Int>
class Arguments {
 public:
  /// @param arguments in the order of dense_parameters_of(), each by address
  Arguments(DenseEntry entry, ScalarType type, std::span<void* const> arguments)
      : entry_(entry), type_(type), parameters_(dense_parameters_of(entry, is_complex(type))), arguments_(arguments) {}

  DenseEntry entry() const { return entry_; }
  ScalarType type() const { return type_; }
  void* address(DenseParameter parameter) const {
    const auto at = std::find(parameters_.begin(), parameters_.end(), parameter);
    return at == parameters_.end() ? nullptr : arguments_[static_cast<std::size_t>(at - parameters_.begin())];
  }
  bool has(DenseParameter parameter) const { return address(parameter) != nullptr; }
  index_t integer(DenseParameter parameter) const {
    const void* const at = address(parameter);
    return at == nullptr ? 0 : static_cast<index_t>(*static_cast<const Int*>(at));
  }
  /// In capitals.
  char letter(DenseParameter parameter) const {
    const auto* const at = static_cast<const char*>(address(parameter));
    if (at == nullptr) return '\0';
    return *at >= 'a' && *at <= 'z' ? static_cast<char>(*at - 'a' + 'A') : *at;
  }
  double real(DenseParameter parameter) const {
    const void* const at = address(parameter);
    return real_bytes(type_) == sizeof(float) ? static_cast<double>(*static_cast<const float*>(at))
                                              : *static_cast<const double*>(at);
  }

 private:
  DenseEntry entry_;
  ScalarType type_;
  DenseParameters parameters_;
  std::span<void* const> arguments_;
};

constexpr std::optional<VectorJob> vector_job(char letter) {
  switch (letter) {
    case 'N':
      return VectorJob::none;
    case 'S':
      return VectorJob::thin;
    case 'A':
      return VectorJob::all;
    case 'O':
      return VectorJob::overwrite;
    default:
      return std::nullopt;
  }
}

/// Elements of work, rwork and iwork that the routine insists on. For gesvd, which can do with less, of its widest path.
struct Workspace {
  index_t work = 1, rwork = 1, iwork = 1;
};
/// What gesdd itself insists on, which is less than its documentation says: whoever asks it for a size may get less than that.
constexpr index_t least_of_real_gesdd(const DenseProblem& p) {
  const index_t most = std::max(p.m, p.n), least = std::min(p.m, p.n), square = least * least;
  const index_t bidiagonal = p.u == VectorJob::none ? 7 * least : 3 * square + 4 * least;
  const bool overwrites = p.u == VectorJob::overwrite || p.vt == VectorJob::overwrite;
  if (most < 11 * least / 6) return 3 * least + std::max(most, bidiagonal + (overwrites ? square : 0));
  if (p.u == VectorJob::none) return bidiagonal + least;
  if (overwrites) return bidiagonal + 2 * square + 3 * least;
  if (p.u == VectorJob::thin) return bidiagonal + square + 3 * least;
  return square + std::max(3 * least + bidiagonal, least + most);
}
constexpr index_t least_of_complex_gesdd(const DenseProblem& p) {
  const index_t most = std::max(p.m, p.n), least = std::min(p.m, p.n), square = least * least;
  const bool overwrites = p.u == VectorJob::overwrite || p.vt == VectorJob::overwrite;
  if (most < 17 * least / 9) return 2 * least + most + (overwrites ? square : 0);
  if (p.u == VectorJob::none) return 3 * least;
  if (overwrites) return 2 * square + 3 * least;
  if (p.u == VectorJob::thin) return square + 3 * least;
  return square + std::max(3 * least, least + most);
}

constexpr Workspace least_workspace(DenseEntry entry, const DenseProblem& p) {
  const bool complex = is_complex(p.type);
  const index_t n = p.n, most = std::max(p.m, p.n), least = std::min(p.m, p.n);
  switch (entry) {
    case DenseEntry::syev:
    case DenseEntry::sygv:
      return {complex ? 2 * n - 1 : 3 * n - 1};
    case DenseEntry::syevd:
    case DenseEntry::sygvd:
      if (!p.vectors) return {complex ? n + 1 : 2 * n + 1, n};
      if (complex) return {2 * n + n * n, 1 + 5 * n + 2 * n * n, 3 + 5 * n};
      return {1 + 6 * n + 2 * n * n, 1, 3 + 5 * n};
    case DenseEntry::syevr:
      return complex ? Workspace{2 * n, 24 * n, 10 * n} : Workspace{26 * n, 1, 10 * n};
    case DenseEntry::syevx:
      return {complex ? 2 * n : 8 * n};
    case DenseEntry::gesvd:
      return {complex ? 2 * least + most : std::max(3 * least + most, 5 * least)};
    case DenseEntry::gesdd:
      return {complex ? least_of_complex_gesdd(p) : least_of_real_gesdd(p)};
    case DenseEntry::geev:
      return {complex ? 2 * n : (p.vectors ? 4 : 3) * n};
    case DenseEntry::orgqr:
      return {n};
    case DenseEntry::ormqr:
      return {p.side == Side::left ? n : p.m};
    case DenseEntry::trtri:
    case DenseEntry::potri:
      break;
  }
  return {};
}

/// @return whether the letters are good, and such as a device takes
template <class Int>
bool read_letters(const Arguments<Int>& a, DenseProblem& p) {
  using enum DenseParameter;
  if (a.has(uplo)) {
    const auto read = uplo_from_letter(a.letter(uplo));
    if (!read) return false;
    p.uplo = *read;
  }
  if (a.has(side)) {
    const auto read = side_from_letter(a.letter(side));
    const char other = is_complex(p.type) ? 'C' : 'T';
    if (!read || (a.letter(trans) != 'N' && a.letter(trans) != other)) return false;
    p.side = *read;
    p.op = a.letter(trans) == 'N' ? Op::no_trans : Op::conj_trans;
  }
  if (a.has(diag)) {
    const auto read = diag_from_letter(a.letter(diag));
    if (!read) return false;
    p.diag = *read;
  }
  if (a.has(range)) {
    const char letter = a.letter(range);
    if (letter != 'A' && letter != 'V' && letter != 'I') return false;
    p.range = letter == 'A' ? EigenRange::all : letter == 'V' ? EigenRange::values : EigenRange::indices;
  }
  if (a.entry() == DenseEntry::gesdd) {
    const auto job = vector_job(a.letter(jobz));
    if (!job) return false;
    const bool tall = a.integer(m) >= a.integer(n);
    const bool overwrites = *job == VectorJob::overwrite;
    p.u = overwrites && !tall ? VectorJob::all : *job;
    p.vt = overwrites && tall ? VectorJob::all : *job;
    return true;
  }
  if (a.entry() == DenseEntry::gesvd) {
    const auto u = vector_job(a.letter(jobu)), vt = vector_job(a.letter(jobvt));
    if (!u || !vt || (*u == VectorJob::overwrite && *vt == VectorJob::overwrite)) return false;
    p.u = *u;
    p.vt = *vt;
    return true;
  }
  const DenseParameter vectors = a.entry() == DenseEntry::geev ? jobvr : jobz;
  if (!a.has(vectors)) return true;
  if (a.entry() == DenseEntry::geev && a.letter(jobvl) != 'N') return false;
  p.vectors = a.letter(vectors) == 'V';
  return p.vectors || a.letter(vectors) == 'N';
}

/// Smaller eigenvalue problems of general matrices are never sooner on a device. And who compares eigenvalues of small ones
/// with and without left vectors, as LAPACK's own tests do, finds the same bits.
inline constexpr index_t least_order_of_geev = 128;

/// @return whether sizes are good, and not such that nothing is to be done
inline bool has_good_sizes(DenseEntry entry, const DenseProblem& p) {
  if (p.m < 1 || p.n < 1) return false;
  const index_t reflected = p.side == Side::left ? p.m : p.n;
  switch (entry) {
    case DenseEntry::orgqr:
      return p.n <= p.m && p.k >= 1 && p.k <= p.n;
    case DenseEntry::ormqr:
      return p.k >= 1 && p.k <= reflected;
    case DenseEntry::sygv:
    case DenseEntry::sygvd:
      return p.itype >= 1 && p.itype <= 3;
    case DenseEntry::syevr:
    case DenseEntry::syevx:
      if (p.range == EigenRange::values) return p.vl < p.vu;
      return p.range == EigenRange::all || (p.il >= 1 && p.il <= p.iu && p.iu <= p.n);
    case DenseEntry::geev:
      return p.n >= least_order_of_geev;
    default:
      return true;
  }
}

/// Of every matrix, and of those that are not asked for as well.
template <class Int>
bool has_good_lds(const Arguments<Int>& a, const DenseProblem& p) {
  using enum DenseParameter;
  const auto spans = [](index_t ld, index_t rows) { return ld >= std::max<index_t>(rows, 1); };
  for (const DenseParameter ld : {ldu, ldvt, ldleft}) {
    if (a.has(ld) && a.integer(ld) < 1) return false;
  }
  if (!spans(p.lda, a.entry() == DenseEntry::ormqr && p.side == Side::right ? p.n : p.m)) return false;
  for (const DenseOperand& operand : DenseOperands(p)) {
    if (operand.has_ld() && !spans(operand.ld, operand.rows)) return false;
  }
  return true;
}

/// @return whether there is enough, and no query for more
template <class Int>
bool has_workspace(const Arguments<Int>& a, const DenseProblem& p) {
  using enum DenseParameter;
  const Workspace least = least_workspace(a.entry(), p);
  const auto enough = [&](DenseParameter size, index_t needed) {
    return !a.has(size) || a.integer(size) >= std::max<index_t>(needed, 1);
  };
  return enough(lwork, least.work) && enough(lrwork, least.rwork) && enough(liwork, least.iwork);
}

constexpr DenseRoutine routine_of(DenseEntry entry) {
  switch (entry) {
    case DenseEntry::syev:
    case DenseEntry::syevd:
      return DenseRoutine::heevd;
    case DenseEntry::syevr:
    case DenseEntry::syevx:
      return DenseRoutine::heevr;
    case DenseEntry::sygv:
    case DenseEntry::sygvd:
      return DenseRoutine::hegvd;
    case DenseEntry::gesdd:
      return DenseRoutine::gesdd;
    case DenseEntry::gesvd:
      return DenseRoutine::gesvd;
    case DenseEntry::geev:
      return DenseRoutine::geev;
    case DenseEntry::orgqr:
      return DenseRoutine::ungqr;
    case DenseEntry::ormqr:
      return DenseRoutine::unmqr;
    case DenseEntry::trtri:
      return DenseRoutine::trtri;
    case DenseEntry::potri:
      return DenseRoutine::potri;
  }
  return DenseRoutine::heevd;
}

}  // namespace dense_interface

/// @param arguments in the order of dense_parameters_of(), each by address
/// @tparam Int of the caller's integers
/// @return nothing if the call is for the LAPACK behind, see above
template <class Int>
std::optional<DenseCall> dense_call_of(DenseEntry entry, ScalarType type, std::span<void* const> arguments) {
  using enum DenseParameter;
  const dense_interface::Arguments<Int> a(entry, type, arguments);
  DenseCall call;
  DenseProblem& p = call.problem;
  p.routine = dense_interface::routine_of(entry);
  p.type = type;
  if (!dense_interface::read_letters(a, p)) return std::nullopt;
  p.n = a.integer(n);
  p.m = a.has(m) ? a.integer(m) : p.n;
  p.k = a.integer(k);
  p.itype = a.has(itype) ? static_cast<int>(a.integer(itype)) : 1;
  if (p.range == EigenRange::values) {
    p.vl = a.real(vl);
    p.vu = a.real(vu);
  } else if (p.range == EigenRange::indices) {
    p.il = a.integer(il);
    p.iu = a.integer(iu);
  }
  if (!dense_interface::has_good_sizes(entry, p)) return std::nullopt;
  p.A = a.address(A);
  p.lda = a.integer(lda);
  p.B = a.address(B);
  p.ldb = a.integer(ldb);
  p.U = a.address(U);
  p.ldu = a.integer(ldu);
  p.VT = a.address(VT);
  p.ldvt = a.integer(ldvt);
  p.values = a.address(values);
  p.imaginary = a.address(imaginary);
  p.tau = a.address(tau);
  if (!dense_interface::has_good_lds(a, p) || !dense_interface::has_workspace(a, p)) return std::nullopt;
  call.found = a.address(found);
  call.support = a.address(support);
  call.ifail = a.address(ifail);
  call.work = a.address(work);
  call.lwork = a.integer(lwork);
  if (a.has(lrwork)) call.rwork = a.address(rwork);
  call.lrwork = a.integer(lrwork);
  if (a.has(liwork)) call.iwork = a.address(iwork);
  call.liwork = a.integer(liwork);
  call.info = a.address(info);
  return call;
}

}  // namespace tessera
