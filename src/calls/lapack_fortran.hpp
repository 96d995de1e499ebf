// The Fortran interfaces of LAPACK's routines (parameters.hpp): the problem that arguments make. Pure, and of either integer width.
//
// The LAPACK behind gets the calls that are no problems: bad arguments, about which it has to complain itself, too
// little workspace, quick returns. It also gets good calls that no device takes: queries for the size of workspace, and
// left eigenvectors. unmbr multiplies by the Q of unmqr or unmlq in a part of its matrices, and becomes one of these.
//
// Source: LAPACK 3.12, the documentation of each routine.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "calls/arguments.hpp"
#include "calls/lapack_arguments.hpp"
#include "calls/lapack_call.hpp"
#include "calls/lapack_results.hpp"
#include "calls/lapack_workspace.hpp"
#include "calls/parameters.hpp"

namespace tessera {

namespace lapack_fortran {

template <class Int>
class Arguments {
 public:
  /// @param arguments in the order of parameters_of(), each by address
  Arguments(Routine routine, ScalarType type, std::span<void* const> arguments)
      : routine_(routine), type_(type), parameters_(parameters_of(routine, is_complex(type))), arguments_(arguments) {}

  Routine routine() const { return routine_; }
  ScalarType type() const { return type_; }
  void* address(Parameter parameter) const {
    const auto at = std::find(parameters_.begin(), parameters_.end(), parameter);
    return at == parameters_.end() ? nullptr : arguments_[static_cast<std::size_t>(at - parameters_.begin())];
  }
  bool has(Parameter parameter) const { return address(parameter) != nullptr; }
  index_t integer(Parameter parameter) const {
    const void* const at = address(parameter);
    return at == nullptr ? 0 : static_cast<index_t>(*static_cast<const Int*>(at));
  }
  /// In capitals.
  char letter(Parameter parameter) const {
    const auto* const at = static_cast<const char*>(address(parameter));
    if (at == nullptr) return '\0';
    return *at >= 'a' && *at <= 'z' ? static_cast<char>(*at - 'a' + 'A') : *at;
  }
  double real(Parameter parameter) const {
    const void* const at = address(parameter);
    return real_bytes(type_) == sizeof(float) ? static_cast<double>(*static_cast<const float*>(at))
                                              : *static_cast<const double*>(at);
  }

 private:
  Routine routine_;
  ScalarType type_;
  Parameters parameters_;
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
  return a.letter(Parameter::jobvl) == 'V';
}

constexpr std::optional<bool> vectors_from_letter(char letter) { return one_of_two(letter, 'N', false, 'V', true); }

/// Whether vectors are asked for, and which.
template <class Int>
void take_jobs(const Arguments<Int>& a, LapackArguments& taken) {
  using enum Parameter;
  LapackCall& p = taken.problem;
  if (a.routine() == Routine::gesdd) {
    VectorJob job = VectorJob::none;
    taken.take(jobz, vector_job(a.letter(jobz)), job);
    const bool tall = a.integer(m) >= a.integer(n);
    const bool overwrites = job == VectorJob::overwrite;
    p.u = overwrites && !tall ? VectorJob::all : job;
    p.vt = overwrites && tall ? VectorJob::all : job;
  } else if (a.routine() == Routine::gesvd) {
    taken.take(jobu, vector_job(a.letter(jobu)), p.u);
    taken.take(jobvt, vector_job(a.letter(jobvt)), p.vt);
    if (p.u == VectorJob::overwrite && p.vt == VectorJob::overwrite) taken.set_bad(jobvt);
  } else {
    bool left = false;
    if (a.has(jobvl)) taken.take(jobvl, vectors_from_letter(a.letter(jobvl)), left);
    for (const Parameter vectors : {jobz, jobvr}) {
      if (a.has(vectors)) taken.take(vectors, vectors_from_letter(a.letter(vectors)), p.vectors);
    }
  }
}

/// A transposition as the routine knows it: most take the conjugate one for the transposed one of real types.
template <class Int>
std::optional<Op> op_of(const Arguments<Int>& a) {
  const std::optional<Op> op = op_from_letter(a.letter(Parameter::trans));
  if (!op || *op == Op::no_trans || a.routine() == Routine::trtrs || a.routine() == Routine::getrs) return op;
  if (*op != (is_complex(a.type()) ? Op::conj_trans : Op::trans)) return std::nullopt;
  return Op::conj_trans;
}

template <class Int>
void take_letters(const Arguments<Int>& a, LapackArguments& taken) {
  using enum Parameter;
  LapackCall& p = taken.problem;
  const auto take = [&](Parameter letter, const auto& value, auto& field) {
    if (a.has(letter)) taken.take(letter, value, field);
  };
  take(uplo, uplo_from_letter(a.letter(uplo)), p.uplo);
  take(side, side_from_letter(a.letter(side)), p.side);
  take(trans, op_of(a), p.op);
  take(diag, diag_from_letter(a.letter(diag)), p.diag);
  take(direct, one_of_two(a.letter(direct), 'F', ReflectorOrder::forward, 'B', ReflectorOrder::backward), p.order);
  take(storev, one_of_two(a.letter(storev), 'C', ReflectorStorage::columns, 'R', ReflectorStorage::rows), p.storage);
  take(vect, one_of_two(a.letter(vect), 'Q', Routine::unmqr, 'P', Routine::unmlq), p.routine);
  if (a.has(vect) && p.routine == Routine::unmlq)  // P^H is what its reflectors, which are rows, make
    p.op = p.op == Op::no_trans ? Op::conj_trans : Op::no_trans;
  if (a.has(range)) {
    const char letter = a.letter(range);
    if (letter != 'A' && letter != 'V' && letter != 'I') taken.set_bad(range);
    p.range = letter == 'V' ? EigenRange::values : letter == 'I' ? EigenRange::indices : EigenRange::all;
  }
  take_jobs(a, taken);
}

/// Smaller eigenvalue problems of general matrices are never sooner on a device. And who compares eigenvalues of small ones
/// with and without left vectors, as LAPACK's own tests do, finds the same bits.
inline constexpr index_t least_order_of_geev = 128;

/// @return whether a device may be sooner
constexpr bool is_large_enough(const LapackCall& p) { return p.routine != Routine::geev || p.n >= least_order_of_geev; }

/// @return whether one of the sizes of workspace asks for it
template <class Int>
bool asks_for_sizes(const Arguments<Int>& a) {
  using enum Parameter;
  return a.integer(lwork) == -1 || a.integer(lrwork) == -1 || a.integer(liwork) == -1;
}

/// Further requirements of Fortran: enough workspace, and good leading dimensions of matrices that are not asked for.
/// @param least() is that workspace
template <class Int, class Least>
bool is_good_besides(const Arguments<Int>& a, Parameter parameter, const Least& least, const LapackCall& p) {
  using enum Parameter;
  const auto is_enough = [&](index_t needed) {
    return asks_for_sizes(a) || a.integer(parameter) >= std::max<index_t>(needed, 1);
  };
  switch (parameter) {
    case lwork:
      return is_enough(least().work);
    case lrwork:
      return is_enough(least().rwork);
    case liwork:
      return is_enough(least().iwork);
    case ldu:
    case ldvt:
      return a.integer(parameter) >= 1;
    case ldleft:
      return a.integer(parameter) >= (wants_left(a) ? std::max<index_t>(p.n, 1) : 1);
    default:
      return true;
  }
}

/// Of unmbr's reflectors, where all of them together would be longer than they are, the first begins in the second row or
/// column. @param p with so many reflectors as fit @param count that were reduced @return whether any are left
inline bool place_reflectors_of_unmbr(LapackCall& p, index_t count) {
  const index_t reflected = reflected_of(p);
  const bool in_rows = p.routine == Routine::unmlq;
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

template <class Int>
void take_numbers(const Arguments<Int>& a, LapackCall& p) {
  using enum Parameter;
  p.n = a.integer(n);
  p.m = a.has(m) ? a.integer(m) : p.n;
  p.k = a.has(nrhs) ? a.integer(nrhs) : a.integer(k);
  if (a.has(itype)) p.itype = static_cast<int>(a.integer(itype));
  if (p.range == EigenRange::values) {
    p.vl = a.real(vl);
    p.vu = a.real(vu);
  } else if (p.range == EigenRange::indices) {
    p.il = a.integer(il);
    p.iu = a.integer(iu);
  }
  if (a.has(rcond)) p.rcond = a.real(rcond);
}

template <class Int>
void take_addresses(const Arguments<Int>& a, LapackCall& p) {
  using enum Parameter;
  for (const auto& [parameter, slot] : {std::pair{A, LapackSlot::A},
                                        {B, LapackSlot::B},
                                        {U, LapackSlot::U},
                                        {VT, LapackSlot::VT},
                                        {t_factor, LapackSlot::T},
                                        {values, LapackSlot::values},
                                        {imaginary, LapackSlot::imaginary},
                                        {tau, LapackSlot::tau},
                                        {ipiv, LapackSlot::ipiv}})
    address_of(p, slot) = a.address(parameter);
  for (const auto& [parameter, slot] : {std::pair{lda, LapackSlot::A},
                                        {ldb, LapackSlot::B},
                                        {ldu, LapackSlot::U},
                                        {ldvt, LapackSlot::VT},
                                        {ldt, LapackSlot::T}})
    ld_of(p, slot) = a.integer(parameter);
  p.ipiv_bits = 8 * sizeof(Int);
}

/// The addresses of the results other than matrices.
template <class Int>
void take_results(const Arguments<Int>& a, const Workspace& least, FortranCall& call) {
  using enum Parameter;
  call.found = a.address(found);
  call.support = a.address(support);
  call.ifail = a.address(ifail);
  if (a.has(lwork)) call.work = a.address(work);
  call.lwork = call.asks_for_sizes ? least.work : a.integer(lwork);
  if (a.has(lrwork)) call.rwork = a.address(rwork);
  call.lrwork = call.asks_for_sizes ? least.rwork : a.integer(lrwork);
  if (a.has(liwork)) call.iwork = a.address(iwork);
  call.liwork = call.asks_for_sizes ? least.iwork : a.integer(liwork);
  if (a.routine() == Routine::gelsd) {  // whose sizes are told, but not asked for
    call.rwork = a.address(rwork);
    call.lrwork = least.rwork;
    call.iwork = a.address(iwork);
    call.liwork = least.iwork;
  }
  if (wants_left(a)) {
    call.left = a.address(left);
    call.ldleft = a.integer(ldleft);
  }
}

}  // namespace lapack_fortran

/// @param arguments in the order of parameters_of(), each by address @tparam Int of the caller's integers
template <class Int>
FortranCall fortran_call_of(Routine routine, ScalarType type, std::span<void* const> arguments) {
  using enum Parameter;
  const lapack_fortran::Arguments<Int> a(routine, type, arguments);
  LapackArguments taken{.called = routine, .problem = {}, .bad_letters = {}};
  LapackCall& p = taken.problem;
  p.routine = row_of(routine).computed_as;
  p.type = type;
  lapack_fortran::take_letters(a, taken);
  lapack_fortran::take_numbers(a, p);
  lapack_fortran::take_addresses(a, p);
  const index_t reflectors = p.k;
  if (routine == Routine::unmbr) p.k = std::min(p.k, std::max<index_t>(reflected_of(p), 0));

  FortranCall call;
  // Asked for only of sizes that are good.
  const auto least = [&] { return lapack_fortran::least_workspace(routine, p, lapack_fortran::wants_left(a)); };
  call.bad_position = first_bad(parameters_of(routine, is_complex(type)), taken, {}, [&](Parameter parameter) {
    return lapack_fortran::is_good_besides(a, parameter, least, p);
  });
  call.info = a.address(info);
  if (call.bad_position != 0) return call;
  call.asks_for_sizes = lapack_fortran::asks_for_sizes(a);
  call.does_nothing =
      does_nothing(p) || (routine == Routine::unmbr && !lapack_fortran::place_reflectors_of_unmbr(p, reflectors));
  lapack_fortran::take_results(a, least(), call);
  call.is_for_devices = call.left == nullptr && lapack_fortran::is_large_enough(p);
  call.problem = p;
  return call;
}

}  // namespace tessera
