// Calls of LAPACK on row-major matrices as calls on column-major ones. A row-major matrix lies as its transpose does in columns, so
// that most routines work on it as it lies: another triangle, another transposition, LQ for QR, the solution on the other side.
// Where a routine is not symmetric in that way (eigenvectors, least squares of least norm), a matrix must be copied.
//
// LU and the factors of Bunch and Kaufman become those of the transpose, which solve and invert the same matrix.
#pragma once

#include <bitset>
#include <cstddef>
#include <utility>

#include "calls/lapack_call.hpp"
#include "calls/parameters.hpp"
#include "calls/routine.hpp"

namespace tessera {

/// A call on columns, and what of it is not the caller's memory as it lies.
struct InColumns {
  LapackCall call;
  std::bitset<9> copied;  ///< by LapackSlot: matrices to be copied from rows to columns, and back if they are written
  bool conjugates_b = false;    ///< B's copy is conjugate, going and coming
  bool conjugates_tau = false;  ///< tau of a complex type, read or written, is the conjugate of the caller's

  bool copies(LapackSlot slot) const { return copied.test(static_cast<std::size_t>(slot)); }
};

namespace detail {

constexpr Uplo other_triangle(Uplo uplo) { return uplo == Uplo::lower ? Uplo::upper : Uplo::lower; }
constexpr Side other_side(Side side) { return side == Side::left ? Side::right : Side::left; }

/// The routine whose Q is the transpose: reflectors in rows for such in columns.
constexpr Routine transposed_reflectors(Routine routine) {
  switch (routine) {
    case Routine::geqrf:
      return Routine::gelqf;
    case Routine::gelqf:
      return Routine::geqrf;
    case Routine::ungqr:
      return Routine::unglq;
    case Routine::unglq:
      return Routine::ungqr;
    case Routine::unmqr:
      return Routine::unmlq;
    default:
      return routine;
  }
}

}  // namespace detail

/// @param given on row-major matrices @pre it is of the own interface, and its arguments are good
inline InColumns in_columns(const LapackCall& given) {
  InColumns made{.call = given, .copied = {}};
  LapackCall& p = made.call;
  const auto copy = [&](LapackSlot slot) { made.copied.set(static_cast<std::size_t>(slot)); };
  switch (given.routine) {
    case Routine::heevd:
    case Routine::hegvd:
      // Of the transpose, which is the conjugate, the values are the same, but not the vectors.
      if (given.vectors) {
        copy(LapackSlot::A);
        if (given.routine == Routine::hegvd) copy(LapackSlot::B);
        return made;
      }
      p.uplo = detail::other_triangle(p.uplo);
      return made;
    case Routine::geev:
      copy(LapackSlot::A);
      if (given.vectors) copy(LapackSlot::U);
      return made;
    case Routine::gelsd:
      copy(LapackSlot::A);
      copy(LapackSlot::B);
      return made;
    case Routine::gels:  // complex types know no plain transpose: |A^T X - B| is |A^H conj(X) - conj(B)|
      std::swap(p.m, p.n);
      p.op = p.op == Op::no_trans ? Op::conj_trans : Op::no_trans;
      copy(LapackSlot::B);
      made.conjugates_b = is_complex(p.type);
      return made;
    case Routine::gesdd:
      std::swap(p.m, p.n);
      std::swap(p.u, p.vt);
      std::swap(p.U, p.VT);
      std::swap(p.ldu, p.ldvt);
      return made;
    default:
      break;
  }
  if (has(given.routine, Parameter::uplo)) p.uplo = detail::other_triangle(p.uplo);
  if (has_m(given.routine)) std::swap(p.m, p.n);
  p.routine = detail::transposed_reflectors(p.routine);
  made.conjugates_tau = has(given.routine, Parameter::tau) && is_complex(p.type);
  if (multiplies_by_reflectors(given.routine)) p.side = detail::other_side(p.side);
  if (pivots_diagonally(given.routine) && solves(given.routine)) {
    copy(LapackSlot::B);
    made.conjugates_b = is(given.routine, hermitian) && is_complex(p.type);
  } else if (solves(given.routine) || given.routine == Routine::trtrs) {
    p.side = Side::right;
  }
  return made;
}

}  // namespace tessera
