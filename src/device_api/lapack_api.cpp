// The C entry points of tessera/device_lapack.h: they check the values that the host knows, and make a LapackBatch of
// the rest. routines.def lists the routines. The argument lists are those of the header.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "calls/argument_complaints.hpp"
#include "calls/arguments.hpp"
#include "calls/lapack_arguments.hpp"
#include "calls/lapack_call.hpp"
#include "calls/lapack_lists.hpp"
#include "core/addressable.hpp"
#include "device_api/batch_functions.hpp"
#include "device_api/entry_points.hpp"
#include "device_api/given.hpp"
#include "kernels/lapack_batch.hpp"
#include "tessera/device_lapack.h"

namespace tessera::device_api {
namespace {

/// Whether rows k1 to k2 and the steps between their pivots are good, and the numbers that no other interface has.
bool is_good_too(const Given& given, Parameter parameter) {
  using enum Parameter;
  const bool knows_sizes = given.form != Form::sizes;
  switch (parameter) {
    case n:  // the workspace of inverses depends on it
      return knows_sizes || !inverts(given.routine) || given.value(n) > 0 || given.count <= 0;
    case tiny:
      return given.tiny >= 0;
    case k1:
      return !knows_sizes || given.value(k1) >= 1;
    case incx: {
      const bool has_steps = knows_sizes && given.value(k2) > given.value(k1);
      const index_t most = most_addressable(sizeof(double)) / (has_steps ? given.value(k2) - given.value(k1) : 1);
      return given.value(incx) <= most && given.value(incx) >= -most;
    }
    default:
      return true;
  }
}

/// @param parameter a bad one
std::string complaint_of(Parameter parameter, const LapackArguments& arguments, const ArgumentLimits& limits) {
  if (parameter == Parameter::k1) return "k1 is not positive";
  if (parameter == Parameter::incx) return "incx leads beyond any memory";
  if (parameter == Parameter::n && arguments.problem.n == 0)
    return "n must be known, since the workspace depends on it";
  return lapack_complaint(parameter, arguments, limits);
}

/// Checks the values that the host knows.
/// @return the sizes and letters of all problems. The routine of laswp is getrf, of k2 rows
LapackCall require_good(const Given& given) {
  using enum Parameter;
  const bool knows_sizes = given.form != Form::sizes, swaps = given.routine == Routine::laswp;
  constexpr index_t any = std::numeric_limits<index_t>::max();
  LapackArguments arguments;
  arguments.called = given.routine;
  LapackCall& problem = arguments.problem;
  problem.routine = swaps ? Routine::getrf : given.routine;
  problem.type = given.type;
  problem.m = given.value(swaps ? k2 : m);
  problem.n = given.value(n);
  problem.k = given.value(nrhs);
  problem.lda = knows_sizes ? given.value(lda) : any;
  problem.ldb = knows_sizes ? given.value(ldb) : any;
  arguments.take(uplo, uplo_from_cblas(given.enumerators[uplo]), problem.uplo);
  arguments.take(trans, op_from_cblas(given.enumerators[trans]), problem.op);
  const ArgumentLimits limits = {.most_order = knows_sizes ? std::numeric_limits<int>::max() : any};
  const Parameters parameters = own_parameters_of(given.routine);
  const int bad =
      first_bad(parameters, arguments, limits, [&](Parameter parameter) { return is_good_too(given, parameter); });
  if (bad != 0) {
    const Parameter parameter = parameters[static_cast<std::size_t>(bad - 1)];
    given.complain(parameter, complaint_of(parameter, arguments, limits));
  }
  problem.m = std::max<index_t>(problem.m, 0);
  for (const LapackOperand& operand : LapackOperands(problem)) {
    const index_t ld = knows_sizes ? operand.ld : 0;
    require_argument(
        has_possible_columns(operand.rows, operand.cols, ld, static_cast<std::size_t>(operand.element_bytes)),
        place_of_value(given.form, given.routine, n), beyond_memory::matrix);
  }
  return problem;
}

/// Whether it is known that no matrix is read or written.
bool has_nothing_to_compute(const Given& given, const LapackCall& problem) {
  using enum Parameter;
  const bool swaps = given.routine == Routine::laswp;
  if (swaps && given.value(incx) == 0) return true;
  if (given.form == Form::sizes) return false;
  return does_nothing(problem) || (swaps && given.value(k2) < given.value(k1));
}

kernels::LapackBatch batch_of(const Given& given, const LapackCall& problem, bool with_matrices,
                              bool with_right_hand_sides) {
  using enum Parameter;
  kernels::LapackBatch batch;
  batch.routine = given.routine;
  batch.type = given.type;
  batch.uplo = problem.uplo;
  batch.op = problem.op;
  batch.count = given.count;
  batch.max_m = given.value(m);
  batch.max_n = problem.n;
  batch.max_nrhs = problem.k;
  batch.m = given.numbers[m];
  batch.n = given.numbers[n];
  batch.nrhs = given.numbers[nrhs];
  batch.lda = given.numbers[lda];
  batch.ldb = given.numbers[ldb];
  batch.k1 = given.numbers[k1];
  batch.k2 = given.numbers[k2];
  batch.incx = given.value(incx);
  if (with_matrices) batch.A = given.matrix(A);
  if (with_matrices) batch.ipiv = given.matrix(ipiv);
  if (with_right_hand_sides) batch.B = given.matrix(B);
  batch.tiny = given.tiny;
  batch.info = const_cast<void*>(given.addresses[info]);
  batch.is_wide = given.is_wide();
  return batch;
}

template <Routine, Scalar, class>
tessera_status run(tessera_device_handle handle, const Given& given) noexcept {
  return with_routines(handle, [&](kernels::DeviceRoutines& routines) {
    const LapackCall problem = require_good(given);
    require_possible_batch(given);
    if (given.count == 0) return;
    const bool is_empty = has_nothing_to_compute(given, problem);
    const bool has_right_hand_sides = !is_empty && (given.form == Form::sizes || problem.k > 0);
    require_arrays(given, [&](Parameter parameter) {
      if (parameter == Parameter::info) return needs_info(given.routine) ? Need::required : Need::optional;
      if (is_empty || (parameter == Parameter::B && !has_right_hand_sides)) return Need::none;
      const bool may_be_left_out = given.routine == Routine::getrs || given.routine == Routine::getri;
      return parameter == Parameter::ipiv && may_be_left_out ? Need::optional : Need::required;
    });
    if (is_empty && given.addresses[Parameter::info] == nullptr) return;
    routines.run_lapack_batch(batch_of(given, problem, !is_empty, has_right_hand_sides));
  });
}

tessera_status ask_workspace(tessera_device_handle handle, Routine routine, ScalarType type, index_t max_n,
                             index_t count, std::size_t* bytes) noexcept {
  return with_routines(handle, [&](const kernels::DeviceRoutines& routines) {
    require_argument(max_n >= 0, 2, "max_n is negative");
    require_argument(has_possible_columns(max_n, max_n, max_n, element_bytes(type)), 2, beyond_memory::matrix);
    require_possible_count(count, 3);
    // Each matrix is rounded up by less than 256 bytes.
    require_argument(count <= most_addressable(element_bytes(type)) / (max_n * max_n + 256), 3,
                     "the workspace is larger than any memory");
    require_argument(bytes != nullptr, 4, "bytes is null");
    kernels::LapackBatch batch;
    batch.routine = routine;
    batch.type = type;
    batch.max_n = max_n;
    batch.count = count;
    *bytes = max_n == 0 || count == 0 ? 0 : routines.lapack_workspace_bytes(batch);
  });
}

/// Types in C. They have no commas, because these separate the arguments of a macro. potrs and getrs only read A.
template <Routine routine>
struct InC {
  template <Scalar T>
  using First = typename RealOf<T>::type;
  template <Scalar T>
  using Second = std::conditional_t<solves(routine) && !factors(routine), const CElement<T>, CElement<T>>;
};

}  // namespace
}  // namespace tessera::device_api

extern "C" {

using tessera::Form;
using tessera::Routine;
using namespace tessera::device_api;

#define TESSERA_INFO nullptr

#define TESSERA_LAPACK(routine, list, letter, T) TESSERA_DEFINE_BATCHES(list, routine, letter##routine, T, T)
#define TESSERA_LAPACK_WORKSPACE(routine, letter, T)                                                         \
  TESSERA_INVERSE_WORKSPACE(letter##routine) {                                                               \
    return ask_workspace(handle, Routine::routine, tessera::scalar_type_of<T>(), max_n, batch_count, bytes); \
  }
#include "device_api/routines.def"

}  // extern "C"
