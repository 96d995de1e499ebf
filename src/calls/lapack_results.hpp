// The results other than matrices of a LAPACK call that a device has solved whole (lapack_call.hpp). The functions are
// pure, and work for both integer widths. Source: LAPACK 3.12, the documentation of each routine.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "calls/lapack_call.hpp"

namespace tessera {

/// A call of Fortran: the problem, and what else is written.
struct FortranCall {
  LapackCall problem;
  int bad_position = 0;  ///< of the first bad argument, from 1; if it is not 0, nothing else but info is told here
  bool does_nothing = false;
  bool asks_for_sizes = false;  ///< of workspace, and nothing else
  bool is_for_devices = true;   ///< else only LAPACK has what is asked for, or is always sooner
  void* left = nullptr;         ///< left eigenvectors of geev, n x n; null: not asked for
  index_t ldleft = 0;
  void* found = nullptr;    ///< integer of the caller's width: how many eigenvalues there are, or the rank
  void* support = nullptr;  ///< 2 of them for each eigenvector: the first and the last element that is not zero
  void* ifail = nullptr;    ///< n of them: numbers of vectors that did not converge, or 0 for those that did
  /// The first elements, of the problem's type, its real type, and integers, become sizes that are enough; null: not asked for.
  void *work = nullptr, *rwork = nullptr, *iwork = nullptr;
  index_t lwork = 0, lrwork = 0, liwork = 0;
  void* info = nullptr;  ///< null: there is none (larfb)
};

/// Where LAPACK tells the parts of eigenvectors that are not zero: of all of them only.
constexpr bool tells_support(const LapackCall& p) {
  if (!p.vectors) return false;
  return p.range == EigenRange::all || (p.range == EigenRange::indices && p.il == 1 && p.iu == p.n);
}

/// LAPACK destroys A, and nothing of the result takes its place.
constexpr bool destroys_a(const LapackCall& p) {
  if (is_svd(p.routine)) return p.u != VectorJob::overwrite && p.vt != VectorJob::overwrite;
  const bool is_worked_in = p.routine == Routine::geev || p.routine == Routine::heevr || p.routine == Routine::gelsd;
  return is_worked_in || (is_eigenproblem(p.routine) && !p.vectors);
}

/// A size as a number of the type, not less than it.
template <class Real>
Real rounded_up(index_t size) {
  const auto rounded = static_cast<Real>(size);
  return static_cast<double>(rounded) < static_cast<double>(size)
             ? std::nextafter(rounded, std::numeric_limits<Real>::infinity())
             : rounded;
}

/// LAPACK tells sizes of workspace in single precision rounded to the nearest number, which may be less than it insists on.
/// They become what the call accepts.
/// @pre call.asks_for_sizes, and LAPACK has answered
inline void raise_sizes(const FortranCall& call) {
  if (real_bytes(call.problem.type) != sizeof(float)) return;
  const auto raise = [](void* told, index_t needed) {
    if (told == nullptr) return;
    float& size = *static_cast<float*>(told);
    size = std::max(size, rounded_up<float>(needed));
  };
  raise(call.work, call.lwork);
  raise(call.rwork, call.lrwork);
}

/// Writes the results other than matrices. @param found eigenvalues, of routines that find some, or the rank
template <class Int>
void hand_out(const FortranCall& call, index_t info, index_t found) {
  const LapackCall& p = call.problem;
  if (call.info != nullptr) *static_cast<Int*>(call.info) = static_cast<Int>(info);
  if (call.found != nullptr) *static_cast<Int*>(call.found) = static_cast<Int>(found);
  if (call.support != nullptr && tells_support(p)) {
    for (index_t i = 0; i < found; ++i) {
      static_cast<Int*>(call.support)[2 * i] = 1;
      static_cast<Int*>(call.support)[2 * i + 1] = static_cast<Int>(p.n);
    }
  }
  if (call.ifail != nullptr && p.vectors) {
    auto* const ifail = static_cast<Int*>(call.ifail);
    if (info == 0)
      std::fill_n(ifail, found, Int{0});
    else
      std::iota(ifail, ifail + info, Int{1});
  }
  if (call.iwork != nullptr) *static_cast<Int*>(call.iwork) = static_cast<Int>(call.liwork);
  const auto tell = [&]<class Real>(Real) {
    // A program that reads the destroyed A, or looks whether it was used (SciPy's tests do), must see a change.
    if (info == 0 && destroys_a(p)) *static_cast<Real*>(p.A) = std::numeric_limits<Real>::quiet_NaN();
    if (call.work != nullptr) *static_cast<Real*>(call.work) = rounded_up<Real>(call.lwork);
    if (call.work != nullptr && is_complex(p.type)) static_cast<Real*>(call.work)[1] = 0;
    if (call.rwork != nullptr) *static_cast<Real*>(call.rwork) = rounded_up<Real>(call.lrwork);
  };
  real_bytes(p.type) == sizeof(float) ? tell(float{}) : tell(double{});
}

}  // namespace tessera
