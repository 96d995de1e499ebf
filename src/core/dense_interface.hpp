// The Fortran interfaces of LAPACK's routines that a device may solve whole (dense_problem.hpp): the problem that good arguments
// (dense_parameters.hpp) make. Pure, and of either integer width.
//
// What is not plainly a problem is left to the LAPACK behind: bad arguments, of which it has to complain itself, less workspace
// than they insist on, quick returns. So are good calls that no device takes: queries for the size of workspace, left
// eigenvectors. ormbr multiplies by the Q of ormqr or ormlq in a part of its matrices, and becomes one of these.
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
#include "core/dense_parameters.hpp"
#include "core/dense_problem.hpp"
#include "core/dense_results.hpp"
#include "core/dense_workspace.hpp"

namespace tessera {

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

/// Left eigenvectors are asked for, which no device finds.
template <class Int>
bool wants_left(const Arguments<Int>& a) {
  return a.letter(DenseParameter::jobvl) == 'V';
}

/// @return whether the letters are good
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
    if (!read) return false;
    p.side = *read;
  }
  if (a.has(trans)) {
    const auto read = op_from_letter(a.letter(trans));
    if (!read) return false;
    p.op = *read;
    if (a.entry() != DenseEntry::trtrs && p.op != Op::no_trans) {
      if (p.op != (is_complex(p.type) ? Op::conj_trans : Op::trans)) return false;
      p.op = Op::conj_trans;
    }
  }
  if (a.has(direct)) {
    const auto read = one_of_two(a.letter(direct), 'F', ReflectorOrder::forward, 'B', ReflectorOrder::backward);
    const auto how = one_of_two(a.letter(storev), 'C', ReflectorStorage::columns, 'R', ReflectorStorage::rows);
    if (!read || !how) return false;
    p.order = *read;
    p.storage = *how;
  }
  if (a.has(vect)) {
    const char letter = a.letter(vect);
    if (letter != 'Q' && letter != 'P') return false;
    if (letter == 'P') {  // of P^H, whose reflectors are rows
      p.routine = DenseRoutine::unmlq;
      p.op = p.op == Op::no_trans ? Op::conj_trans : Op::no_trans;
    }
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
  if (a.has(jobvl) && a.letter(jobvl) != 'N' && !wants_left(a)) return false;
  p.vectors = a.letter(vectors) == 'V';
  return p.vectors || a.letter(vectors) == 'N';
}

/// Smaller eigenvalue problems of general matrices are never sooner on a device. And who compares eigenvalues of small ones
/// with and without left vectors, as LAPACK's own tests do, finds the same bits.
inline constexpr index_t least_order_of_geev = 128;

/// @return whether sizes are good, and not such that nothing is to be done
inline bool has_good_sizes(DenseEntry entry, const DenseProblem& p) {
  if (p.m < 1 || p.n < 1) return false;
  const index_t reflected = reflected_of(p);
  switch (entry) {
    case DenseEntry::orgqr:
      return p.n <= p.m && p.k >= 1 && p.k <= p.n;
    case DenseEntry::ormqr:
    case DenseEntry::ormlq:
    case DenseEntry::larfb:
      return p.k >= 1 && p.k <= reflected;
    case DenseEntry::ormtr:
      return reflected > 1;
    case DenseEntry::ormbr:
    case DenseEntry::gels:
    case DenseEntry::gelsd:
    case DenseEntry::trtrs:
      return p.k >= 1;
    case DenseEntry::sygv:
    case DenseEntry::sygvd:
      return p.itype >= 1 && p.itype <= 3;
    case DenseEntry::syevr:
    case DenseEntry::syevx:
      if (p.range == EigenRange::values) return p.vl < p.vu;
      return p.range == EigenRange::all || (p.il >= 1 && p.il <= p.iu && p.iu <= p.n);
    default:
      return true;
  }
}

/// @return whether a device may be sooner
constexpr bool is_large_enough(const DenseProblem& p) {
  return p.routine != DenseRoutine::geev || p.n >= least_order_of_geev;
}

/// Of every matrix, and of those that are not asked for as well.
template <class Int>
bool has_good_lds(const Arguments<Int>& a, const DenseProblem& p) {
  using enum DenseParameter;
  const auto spans = [](index_t ld, index_t rows) { return ld >= std::max<index_t>(rows, 1); };
  for (const DenseParameter ld : {ldu, ldvt, ldleft}) {
    if (a.has(ld) && a.integer(ld) < 1) return false;
  }
  if (wants_left(a) && !spans(a.integer(ldleft), p.n)) return false;
  for (const DenseOperand& operand : DenseOperands(p)) {
    if (operand.has_ld() && !spans(operand.ld, operand.rows)) return false;
  }
  return true;
}

/// @return whether one of the sizes of workspace asks for it
template <class Int>
bool asks_for_sizes(const Arguments<Int>& a) {
  using enum DenseParameter;
  return a.integer(lwork) == -1 || a.integer(lrwork) == -1 || a.integer(liwork) == -1;
}

/// @return whether there is enough
template <class Int>
bool has_workspace(const Arguments<Int>& a, const Workspace& least) {
  using enum DenseParameter;
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
    case DenseEntry::ormbr:
      return DenseRoutine::unmqr;
    case DenseEntry::ormlq:
      return DenseRoutine::unmlq;
    case DenseEntry::ormtr:
      return DenseRoutine::unmtr;
    case DenseEntry::larfb:
      return DenseRoutine::larfb;
    case DenseEntry::gels:
      return DenseRoutine::gels;
    case DenseEntry::gelsd:
      return DenseRoutine::gelsd;
    case DenseEntry::trtrs:
      return DenseRoutine::trtrs;
    case DenseEntry::trtri:
      return DenseRoutine::trtri;
    case DenseEntry::lauum:
      return DenseRoutine::lauum;
    case DenseEntry::getri:
      return DenseRoutine::getri;
    case DenseEntry::potri:
      return DenseRoutine::potri;
  }
  return DenseRoutine::heevd;
}

/// Of ormbr's reflectors, where all of them together would be longer than they are, the first begins in the second row or
/// column. @param p with so many reflectors as fit @param count that were reduced @return whether any are left
inline bool place_reflectors_of_ormbr(DenseProblem& p, index_t count) {
  const index_t reflected = reflected_of(p);
  const bool in_rows = p.routine == DenseRoutine::unmlq;
  if (in_rows ? reflected > count : reflected >= count) return true;
  const auto element = static_cast<index_t>(element_bytes(p.type));
  const auto advance = [&](void*& address, index_t elements) {
    address = static_cast<std::byte*>(address) + elements * element;
  };
  const bool is_left = p.side == Side::left;
  advance(p.A, in_rows ? p.lda : 1);
  advance(p.B, is_left ? 1 : p.ldb);
  --(is_left ? p.m : p.n);
  p.k = reflected - 1;
  return p.k > 0;
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
  if (a.has(rcond)) p.rcond = a.real(rcond);
  if (!dense_interface::has_good_sizes(entry, p)) return std::nullopt;
  if (entry == DenseEntry::ormbr) p.k = std::min(p.k, reflected_of(p));
  p.A = a.address(A);
  p.lda = a.integer(lda);
  p.B = a.address(B);
  p.ldb = a.integer(ldb);
  p.U = a.address(U);
  p.ldu = a.integer(ldu);
  p.VT = a.address(VT);
  p.ldvt = a.integer(ldvt);
  p.T = a.address(T);
  p.ldt = a.integer(ldt);
  p.values = a.address(values);
  p.imaginary = a.address(imaginary);
  p.tau = a.address(tau);
  p.ipiv = a.address(ipiv);
  p.ipiv_bits = 8 * sizeof(Int);
  if (!dense_interface::has_good_lds(a, p)) return std::nullopt;
  const dense_interface::Workspace least = dense_interface::least_workspace(entry, p, dense_interface::wants_left(a));
  call.asks_for_sizes = dense_interface::asks_for_sizes(a);
  if (!call.asks_for_sizes && !dense_interface::has_workspace(a, least)) return std::nullopt;
  if (entry == DenseEntry::ormbr && !dense_interface::place_reflectors_of_ormbr(p, a.integer(k))) return std::nullopt;
  call.found = a.address(found);
  call.support = a.address(support);
  call.ifail = a.address(ifail);
  if (a.has(lwork)) call.work = a.address(work);
  call.lwork = call.asks_for_sizes ? least.work : a.integer(lwork);
  if (a.has(lrwork)) call.rwork = a.address(rwork);
  call.lrwork = call.asks_for_sizes ? least.rwork : a.integer(lrwork);
  if (a.has(liwork)) call.iwork = a.address(iwork);
  call.liwork = call.asks_for_sizes ? least.iwork : a.integer(liwork);
  if (entry == DenseEntry::gelsd) {  // whose sizes are told, but not asked for
    call.rwork = a.address(rwork);
    call.lrwork = least.rwork;
    call.iwork = a.address(iwork);
    call.liwork = least.iwork;
  }
  if (dense_interface::wants_left(a)) {
    call.left = a.address(left);
    call.ldleft = a.integer(ldleft);
  }
  call.is_for_devices = call.left == nullptr && dense_interface::is_large_enough(p);
  call.info = a.address(info);
  return call;
}

}  // namespace tessera
