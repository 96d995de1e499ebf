// One call of a routine of LAPACK on one matrix in host memory, as data: what the LAPACK faces hand down, and what the
// devices or the CPU's LAPACK compute. Column-major.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/lapack.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// The routines that there are as calls of their own. All but geqrf have batches, too (core/lapack.hpp).
enum class LapackCallRoutine : std::uint8_t { potrf, potrs, posv, getrf, getrs, gesv, geqrf };
inline constexpr int lapack_call_routine_count = 7;

/// The routine of batches that computes the same.
constexpr std::optional<LapackRoutine> batched(LapackCallRoutine routine) {
  switch (routine) {
    case LapackCallRoutine::potrf:
      return LapackRoutine::potrf;
    case LapackCallRoutine::potrs:
      return LapackRoutine::potrs;
    case LapackCallRoutine::posv:
      return LapackRoutine::posv;
    case LapackCallRoutine::getrf:
      return LapackRoutine::getrf;
    case LapackCallRoutine::getrs:
      return LapackRoutine::getrs;
    case LapackCallRoutine::gesv:
      return LapackRoutine::gesv;
    case LapackCallRoutine::geqrf:
      break;
  }
  return std::nullopt;
}

constexpr const char* name_of(LapackCallRoutine routine) {
  const std::optional<LapackRoutine> same = batched(routine);
  return same ? name_of(*same) : "geqrf";
}

/// A is replaced by its factors, before anything is solved.
constexpr bool factors(LapackCallRoutine routine) {
  return routine != LapackCallRoutine::potrs && routine != LapackCallRoutine::getrs;
}
/// There are right-hand sides B.
constexpr bool solves(LapackCallRoutine routine) {
  const std::optional<LapackRoutine> same = batched(routine);
  return same && solves(*same);
}
/// Cholesky factors, A Hermitian.
constexpr bool is_hermitian(LapackCallRoutine routine) { return routine <= LapackCallRoutine::posv; }
/// A has m rows; else n.
constexpr bool has_m(LapackCallRoutine routine) {
  return routine == LapackCallRoutine::getrf || routine == LapackCallRoutine::geqrf;
}

/// From 1; 0: there is none such. Source: LAPACK 3.12.
constexpr int position_of(LapackCallRoutine routine, LapackParameter parameter) {
  if (const std::optional<LapackRoutine> same = batched(routine)) return position_of(*same, parameter);
  constexpr LapackParameter of_geqrf[] = {LapackParameter::m, LapackParameter::n, LapackParameter::A,
                                          LapackParameter::lda};  // then tau, work, lwork
  constexpr int info_of_geqrf = 8;
  for (int i = 0; i < 4; ++i) {
    if (of_geqrf[i] == parameter) return i + 1;
  }
  return parameter == LapackParameter::info ? info_of_geqrf : 0;
}

/// A is m x n in getrf and geqrf, n x n (m == n) in all others; B is n x nrhs.
struct LapackCall {
  LapackCallRoutine routine = LapackCallRoutine::getrf;
  ScalarType type = ScalarType::d;
  Uplo uplo = Uplo::lower;  ///< of Cholesky factors
  Op op = Op::no_trans;     ///< getrs
  index_t m = 0, n = 0, nrhs = 0;
  void* A = nullptr;  ///< potrs and getrs only read it
  index_t lda = 0;    ///< elements, as is ldb
  void* B = nullptr;
  index_t ldb = 0;
  void* ipiv = nullptr;  ///< min(m, n) integers of the caller's width, from 1; getrs only reads them
  int ipiv_bits = 32;
  void* tau = nullptr;  ///< geqrf: min(m, n)
  index_t info = 0;     ///< LAPACK's, when the call has been computed
};

inline std::string name_of(const LapackCall& call) { return letter(call.type) + std::string(name_of(call.routine)); }

/// The first size or leading dimension that LAPACK complains of, as its position; 0: all are good.
constexpr int first_bad_size(const LapackCall& call) {
  const auto is_bad = [&](LapackParameter parameter) {
    switch (parameter) {
      case LapackParameter::m:
        return call.m < 0;
      case LapackParameter::n:
        return call.n < 0;
      case LapackParameter::nrhs:
        return call.nrhs < 0;
      case LapackParameter::lda:
        return call.lda < std::max<index_t>(has_m(call.routine) ? call.m : call.n, 1);
      case LapackParameter::ldb:
        return call.ldb < std::max<index_t>(call.n, 1);
      default:
        return false;
    }
  };
  int first = 0;
  for (const LapackParameter parameter :
       {LapackParameter::m, LapackParameter::n, LapackParameter::nrhs, LapackParameter::lda, LapackParameter::ldb}) {
    const int position = position_of(call.routine, parameter);
    if (position != 0 && is_bad(parameter) && (first == 0 || position < first)) first = position;
  }
  return first;
}

/// Nothing is read or written but info. gesv and posv factor A even without right-hand sides. @pre sizes are good
constexpr bool does_nothing(const LapackCall& call) {
  if (call.n == 0 || (has_m(call.routine) && call.m == 0)) return true;
  return !factors(call.routine) && call.nrhs == 0;
}

/// Floating-point operations as everybody reports them, of a real type. Source: LAPACK Working Note 41, leading terms.
constexpr double real_flops_of(const LapackCall& call) {
  const auto m = static_cast<double>(call.m), n = static_cast<double>(call.n);
  if (const std::optional<LapackRoutine> same = batched(call.routine))
    return real_flops_of(*same, has_m(call.routine) ? m : n, n, static_cast<double>(call.nrhs));
  const double least = m < n ? m : n, most = m < n ? n : m;
  return 2 * most * least * least - 2.0 / 3 * least * least * least;
}
/// Complex operations count four times real ones.
constexpr double flops_of(const LapackCall& call) { return (is_complex(call.type) ? 4 : 1) * real_flops_of(call); }

/// Calls f with an int32_t or an int64_t for the caller's pivots.
template <class F>
decltype(auto) dispatch_pivots(const LapackCall& call, F&& f) {
  if (call.ipiv_bits == 64) return f(static_cast<std::int64_t*>(call.ipiv));
  return f(static_cast<std::int32_t*>(call.ipiv));
}

}  // namespace tessera
