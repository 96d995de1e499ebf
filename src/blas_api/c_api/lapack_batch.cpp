// Batches of LAPACK's routines of the own C API (tessera/lapack_batch.h): checks, and exceptions into status codes. All
// arguments of all groups are checked, in the caller's order, before anything is computed.
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "blas_api/c_api/context.hpp"
#include "calls/argument_complaints.hpp"
#include "calls/argument_places.hpp"
#include "calls/arguments.hpp"
#include "calls/in_types.hpp"
#include "calls/lapack.hpp"
#include "calls/lapack_arguments.hpp"
#include "calls/lapack_lists.hpp"
#include "calls/lapack_problems.hpp"
#include "core/addressable.hpp"
#include "core/error.hpp"
#include "tessera/lapack_batch.h"

using tessera::ByParameter;
using tessera::CArray;
using tessera::Form;
using tessera::index_t;
using tessera::LapackGroup;
using tessera::LapackProblems;
using tessera::LapackProblemsBuilder;
using tessera::MatricesOfGroup;
using tessera::Parameter;
using tessera::require_argument;
using tessera::Routine;
using tessera::Scalar;
using tessera::c_api::guarded;
using tessera::offload::CallTime;

namespace {

template <Scalar T>
using Real = typename tessera::RealOf<T>::type;

/// The arguments of a call. With groups they are arrays: an entry for each group or, of matrices, pivots and info, for each problem.
struct Given {
  Form form = Form::pointers;
  std::array<int64_t, 3> strides{};  ///< in the order of what they belong to
  ByParameter<const void*> addresses{};
  ByParameter<int64_t> numbers{};
  ByParameter<int> letters{};
  double tiny = 0;

  template <Parameter parameter, class T>
  void take(const T& value) {
    if constexpr (std::is_pointer_v<T>)
      addresses[parameter] = value;
    else if constexpr (is_letter(parameter))
      letters[parameter] = static_cast<int>(value);
    else if constexpr (parameter == Parameter::tiny)
      tiny = value;
    else
      numbers[parameter] = value;
  }
  /// Of a group.
  template <class T, class Value>
  Value entry(Parameter parameter, index_t group, Value otherwise) const {
    const auto* const array = static_cast<const T*>(addresses[parameter]);
    return array != nullptr ? static_cast<Value>(array[group]) : otherwise;
  }
  int64_t number(Parameter parameter, index_t group) const {
    return entry<int64_t>(parameter, group, numbers[parameter]);
  }
  /// @param first problem of a group
  MatricesOfGroup matrices(Routine routine, Parameter parameter, index_t first, std::size_t element_bytes) const {
    const void* const address = addresses[parameter];
    if (form == Form::pointers)
      return {.each = address != nullptr ? static_cast<const void* const*>(address) + first : nullptr};
    return {.first = address, .distance_bytes = tessera::distance_in_bytes(stride(routine, parameter), element_bytes)};
  }
  int64_t stride(Routine routine, Parameter parameter) const {
    return strides[tessera::index_among(routine, parameter, tessera::has_stride)];
  }
};
/// @param all the form, and the strides @param values in the order of the routine's interface
template <Routine routine, class... Values>
Given given(Given all, const Values&... values) {
  constexpr tessera::Parameters parameters = own_parameters_of(routine);
  static_assert(sizeof...(values) == count_of(parameters));
  [&]<std::size_t... i>(std::index_sequence<i...>) { (all.template take<parameters[i]>(values), ...); }
  (std::index_sequence_for<Values...>{});
  return all;
}

/// A group as the caller describes it, to be checked. Enumerators are as given.
struct Described {
  int uplo = TESSERA_LOWER;
  int trans = TESSERA_NO_TRANS;
  double tiny = 0;
  LapackGroup group;
};

/// The first argument that is not valid, and what is wrong with it; `none` if all are.
struct Complaint {
  Parameter parameter = Parameter::none;
  std::string text;
};

bool all_there(const MatricesOfGroup& matrices, index_t count) {
  if (matrices.each == nullptr) return matrices.first != nullptr;
  return std::none_of(matrices.each, matrices.each + count, [](const void* matrix) { return matrix == nullptr; });
}

/// Sizes, leading dimensions and enumerators, in the order of the interface.
Complaint bad_value(Routine routine, tessera::ScalarType type, const Described& described) {
  const tessera::LapackProblem& common = described.group.common;
  tessera::LapackArguments taken{.called = routine,
                                 .problem = {.routine = routine,
                                             .type = type,
                                             .m = common.m,
                                             .n = common.n,
                                             .k = common.nrhs,
                                             .lda = common.lda,
                                             .ldb = common.ldb},
                                 .bad_letters = {}};
  taken.take(Parameter::uplo, tessera::uplo_from_cblas(described.uplo), taken.problem.uplo);
  taken.take(Parameter::trans, tessera::op_from_cblas(described.trans), taken.problem.op);
  const tessera::Parameters parameters = own_parameters_of(routine);
  const int place = first_bad(parameters, taken, tessera::batch_limits,
                              [&](Parameter parameter) { return parameter != Parameter::tiny || described.tiny >= 0; });
  if (place == 0) return {};
  const Parameter parameter = parameters[static_cast<std::size_t>(place - 1)];
  return {parameter, tessera::lapack_complaint(parameter, taken, tessera::batch_limits)};
}

/// That what the group looks at is there.
Complaint missing_address(Routine routine, const LapackGroup& group) {
  using enum Parameter;
  if (group.count > 0 && group.info == nullptr && needs_info(routine)) return {info, "info is null"};
  if (!group.has_effect(routine)) return {};
  if (!all_there(group.A, group.count)) return {A, "A is null"};
  if (group.form.has_pivots && !all_there(group.ipiv, group.count)) return {ipiv, "ipiv is null"};
  if (group.common.nrhs > 0 && !all_there(group.B, group.count)) return {B, "B is null"};
  return {};
}

/// The first of both in the order of the call.
Complaint first_of(Routine routine, const Complaint& one, const Complaint& other) {
  if (one.parameter == Parameter::none) return other;
  if (other.parameter == Parameter::none) return one;
  return own_position_of(routine, one.parameter) < own_position_of(routine, other.parameter) ? one : other;
}

/// Completes a description whose values are good, so that its addresses may be looked at.
void complete(Routine routine, Described& described) {
  tessera::LapackForm& form = described.group.form;
  form.uplo = *tessera::uplo_from_cblas(described.uplo);
  form.op = *tessera::op_from_cblas(described.trans);
  form.tiny = described.tiny;
  const MatricesOfGroup& ipiv = described.group.ipiv;
  const bool are_given = ipiv.each != nullptr || ipiv.first != nullptr;
  form.has_pivots = has(routine, Parameter::ipiv) && (factors(routine) || are_given);
}

[[noreturn]] void complain(int position, const std::string& what, index_t group) {
  throw tessera::InvalidArgument(
      "argument " + std::to_string(position) + ": " + what + " (group " + std::to_string(group) + ", from 0)",
      position);
}

/// Computes it and keeps its statistics. @param idle info of problems in which there is nothing to do
void run(tessera_context ctx, LapackProblems batch, const std::vector<std::pair<int*, index_t>>& idle, CallTime& time) {
  const std::string name = tessera::letter(batch.type) + std::string(name_of(batch.routine)) + "_batch";
  ctx->run_batch(name, time, [&](double* flops) { return ctx->context.run_batch(batch, flops, &time); });
  for (const auto& [info, count] : idle) std::fill_n(info, count, 0);
}

/// @param first problem of the group
template <Routine routine, Scalar T>
Described described_group(const Given& given, index_t g, index_t first, index_t count) {
  using enum Parameter;
  Described described;
  if (has(routine, uplo)) described.uplo = given.entry<tessera_uplo>(uplo, g, given.letters[uplo]);
  if (has(routine, trans)) described.trans = given.entry<tessera_transpose>(trans, g, given.letters[trans]);
  described.tiny = given.entry<Real<T>>(tiny, g, given.tiny);
  LapackGroup& group = described.group;
  group.common.n = given.number(n, g);
  group.common.m = has(routine, m) ? given.number(m, g) : group.common.n;
  group.common.nrhs = given.number(nrhs, g);
  group.common.lda = given.number(lda, g);
  group.common.ldb = given.number(ldb, g);
  group.A = given.matrices(routine, A, first, sizeof(T));
  group.B = given.matrices(routine, B, first, sizeof(T));
  group.ipiv = given.matrices(routine, ipiv, first, sizeof(int));
  group.count = count;
  auto* const infos = static_cast<int*>(const_cast<void*>(given.addresses[info]));
  if (infos != nullptr) group.info = infos + first;
  return described;
}

/// Those of the arrays that have an entry for each group.
template <Routine routine>
void require_arrays(const Given& given, const int64_t* group_size) {
  for (const Parameter each : tessera::own_parameters_of(routine)) {
    if (each == Parameter::none || tessera::has_stride(each) || each == Parameter::info) continue;
    require_argument(given.addresses[each] != nullptr, place_of(Form::pointers, routine, each), "the array is null");
  }
  require_argument(group_size != nullptr, place_of(Form::pointers, routine, Parameter::none) + 1, "the array is null");
}

/// Hands a group on, or notes its info if there is nothing to do.
void add(const LapackGroup& group, LapackProblemsBuilder& builder, Routine routine,
         std::vector<std::pair<int*, index_t>>& idle) {
  if (group.has_effect(routine))
    builder.add(group);
  else if (group.info != nullptr && group.count > 0)
    idle.emplace_back(group.info, group.count);
}

template <Routine routine, Scalar T>
tessera_status run_groups(tessera_context ctx, const Given& given, int64_t group_count,
                          const int64_t* group_size) noexcept {
  return guarded([&] {
    CallTime time = CallTime::from_now();
    constexpr int place_of_count = place_of(Form::pointers, routine, Parameter::none);
    require_argument(ctx != nullptr, 1, "ctx is null");
    require_argument(group_count >= 0, place_of_count, "group_count is negative");
    require_argument(group_count <= tessera::most_problems, place_of_count, tessera::beyond_memory::count);
    LapackProblemsBuilder builder(routine, tessera::scalar_type_of<T>());
    std::vector<std::pair<int*, index_t>> idle;
    if (group_count > 0) require_arrays<routine>(given, group_size);
    index_t first = 0;
    for (index_t g = 0; g < group_count; ++g) {
      Described described = described_group<routine, T>(given, g, first, group_size[g]);
      const LapackGroup& group = described.group;
      Complaint complaint = bad_value(routine, tessera::scalar_type_of<T>(), described);
      const bool is_possible_count = group.count >= 0 && tessera::may_have_more(first, group.count);
      if (complaint.parameter == Parameter::none && is_possible_count) {
        complete(routine, described);
        complaint = missing_address(routine, group);
      }
      if (complaint.parameter != Parameter::none)
        complain(place_of(Form::pointers, routine, complaint.parameter), complaint.text, g);
      if (!is_possible_count)
        complain(place_of_count + 1, group.count < 0 ? "group_size is negative" : tessera::beyond_memory::count, g);
      first += group.count;
      add(group, builder, routine, idle);
    }
    run(ctx, builder.take(), idle, time);
  });
}

/// The parameter in front of the first stride that is not as `is_good(stride, bytes of an entry)` wants it.
template <class IsGood>
Parameter first_bad_stride(Routine routine, const Given& given, std::size_t element_bytes, const IsGood& is_good) {
  for (const Parameter each : tessera::own_parameters_of(routine)) {
    if (tessera::has_stride(each) &&
        !is_good(given.stride(routine, each), tessera::is_matrix(each) ? element_bytes : sizeof(int)))
      return tessera::before_stride(each);
  }
  return Parameter::none;
}

template <Routine routine, Scalar T>
tessera_status run_strided(tessera_context ctx, const Given& given, int64_t batch_size) noexcept {
  return guarded([&] {
    CallTime time = CallTime::from_now();
    require_argument(ctx != nullptr, 1, "ctx is null");
    const auto place = [](Parameter parameter) { return place_of(Form::strides, routine, parameter); };
    Described described = described_group<routine, T>(given, 0, 0, batch_size);
    const LapackGroup& group = described.group;
    const auto is_not_negative = [](int64_t stride, std::size_t) { return stride >= 0; };
    const Complaint value = bad_value(routine, tessera::scalar_type_of<T>(), described);
    const Complaint stride{first_bad_stride(routine, given, sizeof(T), is_not_negative), "the stride is negative"};
    const Complaint first = first_of(routine, value, stride);
    const bool is_stride =
        first.parameter != Parameter::none && first.parameter == stride.parameter && first.parameter != value.parameter;
    require_argument(first.parameter == Parameter::none, place(first.parameter) + (is_stride ? 1 : 0),
                     first.text.c_str());
    require_argument(batch_size >= 0, place(Parameter::none), "batch_size is negative");
    require_argument(batch_size <= tessera::most_problems, place(Parameter::none), tessera::beyond_memory::count);
    const Parameter far = first_bad_stride(routine, given, sizeof(T), [&](int64_t stride, std::size_t each) {
      return tessera::is_addressable_stride(stride, batch_size, each);
    });
    require_argument(far == Parameter::none, place(far) + 1, tessera::beyond_memory::stride);
    complete(routine, described);
    const Complaint missing = missing_address(routine, group);
    require_argument(missing.parameter == Parameter::none, place(missing.parameter), missing.text.c_str());
    LapackProblemsBuilder builder(routine, tessera::scalar_type_of<T>());
    std::vector<std::pair<int*, index_t>> idle;
    if (group.has_effect(routine)) builder.reserve(batch_size);
    add(group, builder, routine, idle);
    run(ctx, builder.take(), idle, time);
  });
}

/// A's elements in C: potrs and getrs only read them. Without commas, which end the arguments of a macro.
template <Routine routine>
struct InC {
  template <Scalar T>
  using Factor = std::conditional_t<routine == Routine::potrs || routine == Routine::getrs, const CArray<T>, CArray<T>>;
};

}  // namespace

extern "C" {

#define TESSERA_DEFINE(list, routine, letter, T)                                                                       \
  TESSERA_GROUPS_##list(letter##routine##_batch, Real<T>, InC<Routine::routine>::Factor<T>, CArray<T>) {               \
    return run_groups<Routine::routine, T>(                                                                            \
        ctx, given<Routine::routine>({.form = Form::pointers}, TESSERA_ARGUMENTS_##list(TESSERA_VALUES)), group_count, \
        group_size);                                                                                                   \
  }                                                                                                                    \
  TESSERA_STRIDES_##list(letter##routine##_batch_strided, Real<T>, InC<Routine::routine>::Factor<T>, CArray<T>) {      \
    return run_strided<Routine::routine, T>(                                                                           \
        ctx,                                                                                                           \
        given<Routine::routine>({.form = Form::strides, .strides = {TESSERA_ARGUMENTS_##list(TESSERA_STRIDES)}},       \
                                TESSERA_ARGUMENTS_##list(TESSERA_VALUES)),                                             \
        batch_size);                                                                                                   \
  }
TESSERA_IN_ALL_TYPES(TESSERA_DEFINE, CHOLESKY, potrf)
TESSERA_IN_ALL_TYPES(TESSERA_DEFINE, CHOLESKY_SOLVE, potrs)
TESSERA_IN_ALL_TYPES(TESSERA_DEFINE, CHOLESKY_SOLVE, posv)
TESSERA_IN_ALL_TYPES(TESSERA_DEFINE, CHOLESKY, potri)
TESSERA_IN_ALL_TYPES(TESSERA_DEFINE, LU, getrf)
TESSERA_IN_ALL_TYPES(TESSERA_DEFINE, LU_NOPIV, getrf_nopiv)
TESSERA_IN_ALL_TYPES(TESSERA_DEFINE, LU_SOLVE, getrs)
TESSERA_IN_ALL_TYPES(TESSERA_DEFINE, LU_FACTOR_SOLVE, gesv)
TESSERA_IN_ALL_TYPES(TESSERA_DEFINE, LU_INVERSE, getri)

}  // extern "C"
