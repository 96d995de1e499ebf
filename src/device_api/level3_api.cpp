// The C entry points of tessera/device_blas.h and device_half.h that compute: they check the values that the host knows,
// and make a Level3 or a Level3Batch of the rest. routines.def lists the routines. The argument lists are those of the headers.
//
// T is the type of factors, and Stored that of elements in memory. They differ only for 16-bit numbers.
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "calls/argument_complaints.hpp"
#include "calls/arguments.hpp"
#include "calls/level3.hpp"
#include "calls/level3_lists.hpp"
#include "core/half.hpp"
#include "device_api/batch_functions.hpp"
#include "device_api/entry_points.hpp"
#include "device_api/given.hpp"
#include "tessera/device_blas.h"
#include "tessera/device_half.h"

namespace tessera::device_api {
namespace {

/// Whether the matrices that are read or written fit the address space.
bool has_possible_matrices(const Level3& call, std::size_t element_bytes) {
  if (call.m == 0 || call.n == 0) return true;
  const auto is_possible = [&](const StoredShape& shape, index_t ld) {
    return has_possible_columns(shape.rows, shape.cols, ld, element_bytes);
  };
  return is_possible({call.m, call.n}, call.ldc) &&
         (call.only_scales() || (is_possible(shape_of_a(call), call.lda) && is_possible(shape_of_b(call), call.ldb)));
}

/// Checks the values that the host knows. @return the call, or the part that all problems of a batch share
template <Routine routine, Scalar T>
Level3 require_good(const Given& given) {
  using enum Parameter;
  constexpr bool is_complex = !std::floating_point<T>;
  const bool has_leading_dimensions = given.form != Form::sizes;
  const auto ld = [&](Parameter parameter) {
    return has_leading_dimensions ? given.value(parameter) : std::numeric_limits<index_t>::max();
  };
  const ByParameter<int>& letters = given.enumerators;
  Arguments arguments = arguments_from_cblas(
      Layout::col_major,
      {.side = letters[side],
       .uplo = letters[uplo],
       .transa = letters[transa],
       .transb = letters[transb],
       .diag = letters[diag]},
      {.m = given.value(m), .n = given.value(n), .k = given.value(k), .lda = ld(lda), .ldb = ld(ldb), .ldc = ld(ldc)});
  if (const int bad = first_bad_argument<routine, is_complex>(arguments); bad != 0) {
    const Parameter parameter = parameters_of(routine)[static_cast<std::size_t>(bad - 1)];
    given.complain(parameter, complaint(routine, is_complex, parameter));
  }
  for (const Parameter factor : {alpha, beta}) {
    if (has(routine, factor) && given.addresses[factor] == nullptr)
      given.complain(factor, complaint(routine, is_complex, factor));
  }
  if (!has_leading_dimensions) arguments.lda = arguments.ldb = arguments.ldc = 0;
  Operands operands{.alpha = given.addresses[alpha], .beta = given.addresses[beta]};
  if (given.form == Form::single) {
    operands.A = given.addresses[A];
    operands.C = const_cast<void*>(given.addresses[is_triangular(routine) ? B : C]);
  }
  const Level3 call = level3_of<routine, T>(Layout::col_major, arguments, operands);
  require_argument(has_possible_matrices(call, given.element_bytes), place_of_value(given.form, routine, n),
                   beyond_memory::matrix);
  return call;
}

/// @param reads_operands otherwise A and B are not looked at
kernels::Level3Batch batch_of(const Level3& common, const Given& given, bool reads_operands) {
  using enum Parameter;
  const bool in_place = is_triangular(given.routine);
  kernels::Level3Batch batch;
  batch.common = common;
  batch.count = given.count;
  batch.m = given.numbers[m];
  batch.n = given.numbers[n];
  batch.k = given.numbers[k];
  batch.lda = given.numbers[lda];
  if (!in_place) batch.ldb = given.numbers[ldb];
  batch.ldc = given.numbers[in_place ? ldb : ldc];
  if (reads_operands) batch.A = given.matrix(A);
  if (reads_operands && !in_place) batch.B = given.matrix(B);
  batch.C = given.matrix(in_place ? B : C);
  batch.info = given.info;
  return batch;
}

template <Routine routine, Scalar T, class Stored>
tessera_status run(tessera_device_handle handle, const Given& given) noexcept {
  return with_routines(handle, [&](kernels::DeviceRoutines& routines) {
    const Level3 call = require_good<routine, T>(given);
    require_possible_batch(given);
    if (given.count == 0) return;
    const bool knows_sizes = given.form != Form::sizes;
    if (knows_sizes && (call.m == 0 || call.n == 0)) return;
    const bool reads_operands = knows_sizes ? !call.only_scales() : call.alpha != AnyScalar(0);
    require_arrays(given, [&](Parameter matrix) {
      const bool is_result = matrix == (is_triangular(routine) ? Parameter::B : Parameter::C);
      return is_result || reads_operands ? Need::required : Need::none;
    });
    require_aligned(given.info, given.integer_bytes(), place_of(given.form, routine, Parameter::none) + 1, "info");
    if (given.form == Form::single) return routines.run(call);
    const kernels::Level3Batch batch = batch_of(call, given, reads_operands);
    if constexpr (Scalar<Stored>)
      routines.run_batch(batch);
    else
      routines.run_half_batch({.stored = half_type_of<Stored>(), .products = batch});
  });
}

template <Routine routine, Scalar T>
tessera_status ask_workspace(tessera_device_handle handle, Given given, std::size_t* bytes) noexcept {
  return with_routines(handle, [&](const kernels::DeviceRoutines& routines) {
    using enum Parameter;
    const T factor(1);
    given.addresses[alpha] = &factor;
    given.numbers[lda].of_all = std::max({given.value(m), given.value(n), index_t{1}});
    given.numbers[ldb].of_all = std::max<index_t>(given.value(m), 1);
    const Level3 call = require_good<routine, T>(given);
    require_argument(bytes != nullptr, place_of(Form::single, routine, n) + 1, "bytes is null");
    *bytes = call.m == 0 || call.n == 0 ? 0 : routines.workspace_bytes(call);
  });
}

/// Types in C. They have no commas, because these separate the arguments of a macro.
template <Routine routine>
struct InC {
  template <Scalar T>
  using First = CScalar<Alpha<routine, T>>;
  template <Scalar T>
  using Second = CScalar<Beta<routine, T>>;
};

}  // namespace
}  // namespace tessera::device_api

extern "C" {

using tessera::Form;
using tessera::Routine;
using namespace tessera::device_api;

#define TESSERA_ARGUMENTS_GEMM(part) part((TESSERA_PASSED_GEMM), (max_m, max_n, max_k), (stride_a, stride_b, stride_c))
#define TESSERA_ARGUMENTS_GEMMT(part) part((TESSERA_PASSED_GEMMT), (max_n, max_k), (stride_a, stride_b, stride_c))
#define TESSERA_ARGUMENTS_SIDED(part) part((TESSERA_PASSED_SIDED), (max_m, max_n), (stride_a, stride_b, stride_c))
#define TESSERA_ARGUMENTS_RANK_K(part) part((TESSERA_PASSED_RANK_K), (max_n, max_k), (stride_a, stride_c))
#define TESSERA_ARGUMENTS_RANK_2K(part) part((TESSERA_PASSED_RANK_2K), (max_n, max_k), (stride_a, stride_b, stride_c))
#define TESSERA_ARGUMENTS_TRIANGULAR(part) part((TESSERA_PASSED_TRIANGULAR), (max_m, max_n), (stride_a, stride_b))
#define TESSERA_INFO info

#define TESSERA_ROUTINE(routine, letter, T)                                                                            \
  tessera_status tessera_device_##letter##routine(                                                                     \
      tessera_device_handle handle,                                                                                    \
      TESSERA_PARAMETERS_TRIANGULAR(tessera_side, tessera_uplo, tessera_transpose, tessera_diag, int64_t,              \
                                    tessera::CScalar<T>, const CElement<T>*, , CElement<T>*)) {                        \
    return run<Routine::routine, T, T>(handle,                                                                         \
                                       given<Form::single, Routine::routine, T, T>({}, TESSERA_PASSED_TRIANGULAR));    \
  }                                                                                                                    \
  tessera_status tessera_device_##letter##routine##_workspace(                                                         \
      tessera_device_handle handle, tessera_side side, tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, \
      int64_t m, int64_t n, size_t* bytes) {                                                                           \
    const void *const alpha = nullptr, *const A = nullptr, *const B = nullptr;                                         \
    const int64_t lda = 0, ldb = 0;                                                                                    \
    return ask_workspace<Routine::routine, T>(                                                                         \
        handle, given<Form::single, Routine::routine, T, T>({}, TESSERA_PASSED_TRIANGULAR), bytes);                    \
  }
#define TESSERA_BATCH(routine, list, letter, T) TESSERA_DEFINE_BATCHES(list, routine, letter##routine, T, T)
#define TESSERA_HALF(routine, letters, T, Stored) TESSERA_DEFINE_BATCHES(GEMM, routine, letters##routine, T, Stored)
#include "device_api/routines.def"

}  // extern "C"
