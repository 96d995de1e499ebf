// Batches of LAPACK's routines of the own C API (tessera/lapack_batch.h): checks, and exceptions into status codes. All
// arguments of all groups are checked, in the caller's order, before anything is computed.
#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "blas_api/c_api/context.hpp"
#include "calls/argument_complaints.hpp"
#include "calls/arguments.hpp"
#include "calls/lapack.hpp"
#include "calls/lapack_arguments.hpp"
#include "calls/lapack_problems.hpp"
#include "core/addressable.hpp"
#include "core/error.hpp"
#include "tessera/lapack_batch.h"

using tessera::CArray;
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

enum class Form : std::uint8_t { groups, strides };

template <Scalar T>
using Real = typename tessera::RealOf<T>::type;

/// The arguments of a call with groups, in the order of the interfaces: an entry for each group or, of matrices,
/// pivots and info, for each problem. An argument that a routine does not have stays null.
struct Groups {
  const tessera_uplo* uplo = nullptr;
  const tessera_transpose* trans = nullptr;
  const int64_t *m = nullptr, *n = nullptr, *nrhs = nullptr;
  const void* const* A = nullptr;
  const int64_t* lda = nullptr;
  const void* tiny = nullptr;
  const void* const* ipiv = nullptr;
  const void* const* B = nullptr;
  const int64_t* ldb = nullptr;
  int* info = nullptr;
};

/// Those of a strided one.
struct Strided {
  tessera_uplo uplo = TESSERA_LOWER;
  tessera_transpose trans = TESSERA_NO_TRANS;
  int64_t m = 0, n = 0, nrhs = 0;
  const void* A = nullptr;
  int64_t lda = 0;
  double tiny = 0;
  const void* ipiv = nullptr;
  const void* B = nullptr;
  int64_t ldb = 0;
  int* info = nullptr;
};
struct Strides {
  int64_t a = 0, ipiv = 0, b = 0;
};

template <class E>
const void* const* addresses(E* const* matrices) {
  return reinterpret_cast<const void* const*>(matrices);
}

using tessera::has;

/// Behind the context; strides stand behind what they are of. `none` is what comes after the last.
constexpr int place_of(Form form, Routine routine, Parameter parameter) {
  int place = 2;
  for (const Parameter each : tessera::own_parameters_of(routine)) {
    if (each == parameter) break;
    const bool has_stride = tessera::is_leading_dimension(each) || each == Parameter::ipiv;
    place += form == Form::strides && has_stride ? 2 : 1;
  }
  return place;
}
static_assert(place_of(Form::groups, Routine::getrf, Parameter::none) == 8);
static_assert(place_of(Form::strides, Routine::gesv, Parameter::ldb) == 10);

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

template <Routine routine, Scalar T>
Described described_group(const Groups& given, index_t g, index_t first) {
  const auto at = [g](const int64_t* array) { return array != nullptr ? array[g] : 0; };
  const auto from = [first](const void* const* matrices) {
    return MatricesOfGroup{.each = matrices != nullptr ? matrices + first : nullptr};
  };
  Described described;
  if (given.uplo != nullptr) described.uplo = static_cast<int>(given.uplo[g]);
  if (given.trans != nullptr) described.trans = static_cast<int>(given.trans[g]);
  if (given.tiny != nullptr) described.tiny = static_cast<const Real<T>*>(given.tiny)[g];
  LapackGroup& group = described.group;
  group.common.n = at(given.n);
  group.common.m = has(routine, Parameter::m) ? at(given.m) : group.common.n;
  group.common.nrhs = at(given.nrhs);
  group.common.lda = at(given.lda);
  group.common.ldb = at(given.ldb);
  group.A = from(given.A);
  group.B = from(given.B);
  group.ipiv = from(given.ipiv);
  if (given.info != nullptr) group.info = given.info + first;
  return described;
}

/// Those of the arrays that have an entry for each group.
template <Routine routine>
void require_arrays(const Groups& given, const int64_t* group_size) {
  using enum Parameter;
  const std::pair<Parameter, const void*> arrays[] = {{uplo, given.uplo}, {trans, given.trans}, {m, given.m},
                                                      {n, given.n},       {nrhs, given.nrhs},   {lda, given.lda},
                                                      {tiny, given.tiny}, {ldb, given.ldb}};
  for (const auto& [parameter, array] : arrays) {
    if (has(routine, parameter))
      require_argument(array != nullptr, place_of(Form::groups, routine, parameter), "the array is null");
  }
  require_argument(group_size != nullptr, place_of(Form::groups, routine, none) + 1, "the array is null");
}

template <Routine routine, Scalar T>
tessera_status run_groups(tessera_context ctx, const Groups& given, int64_t group_count,
                          const int64_t* group_size) noexcept {
  return guarded([&] {
    CallTime time = CallTime::from_now();
    constexpr int place_of_count = place_of(Form::groups, routine, Parameter::none);
    require_argument(ctx != nullptr, 1, "ctx is null");
    require_argument(group_count >= 0, place_of_count, "group_count is negative");
    require_argument(group_count <= tessera::most_problems, place_of_count, tessera::beyond_memory::count);
    LapackProblemsBuilder builder(routine, tessera::scalar_type_of<T>());
    std::vector<std::pair<int*, index_t>> idle;
    if (group_count > 0) require_arrays<routine>(given, group_size);
    index_t first = 0;
    for (index_t g = 0; g < group_count; ++g) {
      Described described = described_group<routine, T>(given, g, first);
      LapackGroup& group = described.group;
      group.count = group_size[g];
      Complaint complaint = bad_value(routine, tessera::scalar_type_of<T>(), described);
      const bool is_possible_count = group.count >= 0 && tessera::may_have_more(first, group.count);
      if (complaint.parameter == Parameter::none && is_possible_count) {
        complete(routine, described);
        complaint = missing_address(routine, group);
      }
      if (complaint.parameter != Parameter::none)
        complain(place_of(Form::groups, routine, complaint.parameter), complaint.text, g);
      if (!is_possible_count)
        complain(place_of_count + 1, group.count < 0 ? "group_size is negative" : tessera::beyond_memory::count, g);
      first += group.count;
      if (group.has_effect(routine))
        builder.add(group);
      else if (group.info != nullptr && group.count > 0)
        idle.emplace_back(group.info, group.count);
    }
    run(ctx, builder.take(), idle, time);
  });
}

/// The first parameter whose stride is not as `is_good(stride, bytes of an element)` wants it.
template <class IsGood>
Parameter first_bad_stride(Routine routine, const Strides& strides, std::size_t element_bytes, const IsGood& is_good) {
  using enum Parameter;
  for (const Parameter parameter : tessera::own_parameters_of(routine)) {
    const bool is_bad = (parameter == lda && !is_good(strides.a, element_bytes)) ||
                        (parameter == ipiv && !is_good(strides.ipiv, sizeof(int))) ||
                        (parameter == ldb && !is_good(strides.b, element_bytes));
    if (is_bad) return parameter;
  }
  return none;
}

template <Routine routine, Scalar T>
tessera_status run_strided(tessera_context ctx, const Strided& given, const Strides& strides,
                           int64_t batch_size) noexcept {
  return guarded([&] {
    CallTime time = CallTime::from_now();
    require_argument(ctx != nullptr, 1, "ctx is null");
    const auto place = [](Parameter parameter) { return place_of(Form::strides, routine, parameter); };
    Described described{
        .uplo = static_cast<int>(given.uplo), .trans = static_cast<int>(given.trans), .tiny = given.tiny, .group = {}};
    LapackGroup& group = described.group;
    group.common.n = given.n;
    group.common.m = has(routine, Parameter::m) ? given.m : given.n;
    group.common.nrhs = given.nrhs;
    group.common.lda = given.lda;
    group.common.ldb = given.ldb;
    group.info = given.info;
    group.count = batch_size;
    const auto is_not_negative = [](int64_t stride, std::size_t) { return stride >= 0; };
    const Complaint value = bad_value(routine, tessera::scalar_type_of<T>(), described);
    const Complaint stride{first_bad_stride(routine, strides, sizeof(T), is_not_negative), "the stride is negative"};
    const Complaint first = first_of(routine, value, stride);
    const bool is_stride =
        first.parameter != Parameter::none && first.parameter == stride.parameter && first.parameter != value.parameter;
    require_argument(first.parameter == Parameter::none, place(first.parameter) + (is_stride ? 1 : 0),
                     first.text.c_str());
    require_argument(batch_size >= 0, place(Parameter::none), "batch_size is negative");
    require_argument(batch_size <= tessera::most_problems, place(Parameter::none), tessera::beyond_memory::count);
    const Parameter far = first_bad_stride(routine, strides, sizeof(T), [&](int64_t stride, std::size_t each) {
      return tessera::is_addressable_stride(stride, batch_size, each);
    });
    require_argument(far == Parameter::none, place(far) + 1, tessera::beyond_memory::stride);
    group.A = {.first = given.A, .distance_bytes = tessera::distance_in_bytes(strides.a, sizeof(T))};
    group.B = {.first = given.B, .distance_bytes = tessera::distance_in_bytes(strides.b, sizeof(T))};
    group.ipiv = {.first = given.ipiv, .distance_bytes = tessera::distance_in_bytes(strides.ipiv, sizeof(int))};
    complete(routine, described);
    const Complaint missing = missing_address(routine, group);
    require_argument(missing.parameter == Parameter::none, place(missing.parameter), missing.text.c_str());
    LapackProblemsBuilder builder(routine, tessera::scalar_type_of<T>());
    std::vector<std::pair<int*, index_t>> idle;
    if (group.has_effect(routine)) {
      builder.reserve(batch_size);
      builder.add(group);
    } else if (group.info != nullptr) {
      idle.emplace_back(group.info, batch_size);
    }
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

// By shape of the list of arguments, as the header names it; `of` makes addresses of matrices of what the caller gives.
#define TESSERA_GIVEN_CHOLESKY(of) .uplo = uplo, .n = n, .A = of(A), .lda = lda, .info = info
#define TESSERA_APART_CHOLESKY .a = stride_a
#define TESSERA_GIVEN_CHOLESKY_SOLVE(of) \
  .uplo = uplo, .n = n, .nrhs = nrhs, .A = of(A), .lda = lda, .B = of(B), .ldb = ldb, .info = info
#define TESSERA_APART_CHOLESKY_SOLVE .a = stride_a, .b = stride_b
#define TESSERA_GIVEN_LU(of) .m = m, .n = n, .A = of(A), .lda = lda, .ipiv = of(ipiv), .info = info
#define TESSERA_APART_LU .a = stride_a, .ipiv = stride_ipiv
#define TESSERA_GIVEN_LU_NOPIV(of) .m = m, .n = n, .A = of(A), .lda = lda, .tiny = tiny, .info = info
#define TESSERA_APART_LU_NOPIV .a = stride_a
#define TESSERA_GIVEN_LU_SOLVE(of) \
  .trans = trans, .n = n, .nrhs = nrhs, .A = of(A), .lda = lda, .ipiv = of(ipiv), .B = of(B), .ldb = ldb, .info = info
#define TESSERA_APART_LU_SOLVE .a = stride_a, .ipiv = stride_ipiv, .b = stride_b
#define TESSERA_GIVEN_LU_FACTOR_SOLVE(of) \
  .n = n, .nrhs = nrhs, .A = of(A), .lda = lda, .ipiv = of(ipiv), .B = of(B), .ldb = ldb, .info = info
#define TESSERA_APART_LU_FACTOR_SOLVE .a = stride_a, .ipiv = stride_ipiv, .b = stride_b
#define TESSERA_GIVEN_LU_INVERSE(of) .n = n, .A = of(A), .lda = lda, .ipiv = of(ipiv), .info = info
#define TESSERA_APART_LU_INVERSE .a = stride_a, .ipiv = stride_ipiv

#define TESSERA_AS_IT_IS(address) address
#define TESSERA_DEFINE(shape, routine, letter, T)                                                                    \
  TESSERA_GROUPS_##shape(letter##routine##_batch, Real<T>, InC<Routine::routine>::Factor<T>, CArray<T>) {            \
    return run_groups<Routine::routine, T>(ctx, {TESSERA_GIVEN_##shape(addresses)}, group_count, group_size);        \
  }                                                                                                                  \
  TESSERA_STRIDES_##shape(letter##routine##_batch_strided, Real<T>, InC<Routine::routine>::Factor<T>, CArray<T>) {   \
    return run_strided<Routine::routine, T>(ctx, {TESSERA_GIVEN_##shape(TESSERA_AS_IT_IS)}, {TESSERA_APART_##shape}, \
                                            batch_size);                                                             \
  }
#define TESSERA_DEFINE_TYPES(shape, routine)             \
  TESSERA_DEFINE(shape, routine, s, float)               \
  TESSERA_DEFINE(shape, routine, d, double)              \
  TESSERA_DEFINE(shape, routine, c, std::complex<float>) \
  TESSERA_DEFINE(shape, routine, z, std::complex<double>)

TESSERA_DEFINE_TYPES(CHOLESKY, potrf)
TESSERA_DEFINE_TYPES(CHOLESKY_SOLVE, potrs)
TESSERA_DEFINE_TYPES(CHOLESKY_SOLVE, posv)
TESSERA_DEFINE_TYPES(CHOLESKY, potri)
TESSERA_DEFINE_TYPES(LU, getrf)
TESSERA_DEFINE_TYPES(LU_NOPIV, getrf_nopiv)
TESSERA_DEFINE_TYPES(LU_SOLVE, getrs)
TESSERA_DEFINE_TYPES(LU_FACTOR_SOLVE, gesv)
TESSERA_DEFINE_TYPES(LU_INVERSE, getri)

}  // extern "C"
