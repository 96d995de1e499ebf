// Single calls of LAPACK of the own C API (tessera/lapack.h): checks, and exceptions into status codes. Arguments are those of the
// Fortran interfaces (calls/parameters.hpp) in their order, without workspaces and left eigenvectors, and are checked in it. CMake
// writes the functions (cmake/lapack_symbols.cmake).
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

/// The places for what LAPACK tells of a call.
struct Told {
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

template <Parameter parameter, class Value>
void take(const Value& value, LapackArguments& taken, Told& told) {
  using enum Parameter;
  LapackCall& p = taken.problem;
  if constexpr (parameter == jobz || parameter == jobvr)
    take_vectors(value, taken);
  else if constexpr (parameter == uplo)
    taken.take(uplo, tessera::uplo_from_cblas(value), p.uplo);
  else if constexpr (parameter == side)
    taken.take(side, tessera::side_from_cblas(value), p.side);
  else if constexpr (parameter == trans)
    taken.take(trans, op_of(p.routine, is_complex(p.type), value), p.op);
  else if constexpr (parameter == diag)
    taken.take(diag, tessera::diag_from_cblas(value), p.diag);
  else if constexpr (parameter == itype)
    p.itype = value;
  else if constexpr (parameter == m)
    p.m = value;
  else if constexpr (parameter == n)
    p.n = value;
  else if constexpr (parameter == k || parameter == nrhs)
    p.k = value;
  else if constexpr (parameter == rcond)
    p.rcond = value;
  else if constexpr (parameter == found)
    told.found = value;
  else if constexpr (parameter == info)
    told.info = value;
  else if constexpr (is_leading_dimension(parameter))
    ld_of(p, *slot_of(parameter)) = value;
  else
    address_of(p, *slot_of(parameter)) = const_cast<void*>(static_cast<const void*>(value));
}

/// @param values in the order of the routine's interface
template <Routine routine, Scalar T, class... Values>
LapackArguments arguments_of(Told& told, const Values&... values) {
  constexpr tessera::ScalarType type = tessera::scalar_type_of<T>();
  constexpr tessera::Parameters parameters = own_parameters_of(routine, is_complex(type));
  static_assert(sizeof...(values) == count_of(parameters));
  LapackArguments taken{.called = routine, .problem = {.routine = routine, .type = type}, .bad_letters = {}};
  [&]<std::size_t... i>(std::index_sequence<i...>) { (take<parameters[i]>(values, taken, told), ...); }
  (std::index_sequence_for<Values...>{});
  if (!has_m(routine)) taken.problem.m = taken.problem.n;
  return taken;
}

/// LAPACK never has anything to tell.
constexpr bool may_leave_info_out(Routine routine) {
  return (solves(routine) && !factors(routine)) || makes_reflectors(routine);
}

void check(const Told& told, const LapackArguments& taken) {
  const tessera::Parameters parameters = own_parameters_of(taken.called, is_complex(taken.problem.type));
  const int place = first_bad(parameters, taken, tessera::own_limits, [&](Parameter parameter) {
    if (parameter == Parameter::found) return told.found != nullptr;
    return parameter != Parameter::info || told.info != nullptr || may_leave_info_out(taken.called);
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

void run(tessera_context ctx, const LapackArguments& taken, const Told& told, tessera::offload::CallTime& time) {
  check(told, taken);
  const std::shared_lock alive(ctx->in_use);
  tessera::offload::LapackRun run{.problem = taken.problem};
  std::optional<tessera::runtime::JobStatistics> job = compute(ctx, run, time);
  if (told.info != nullptr) *told.info = run.info;
  if (told.found != nullptr) *told.found = run.found;
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
}

/// @param values of the call, behind the context
template <Routine routine, Scalar T, class... Values>
tessera_status run(tessera_context ctx, const Values&... values) noexcept {
  return guarded([&] {
    tessera::offload::CallTime time = tessera::offload::CallTime::from_now();
    require_argument(ctx != nullptr, 1, "ctx is null");
    Told told;
    run(ctx, arguments_of<routine, T>(told, values...), told, time);
  });
}

}  // namespace

extern "C" {
#include "blas_api/c_api/lapack_functions.inc"
}
