// The C entry points of tessera/device_blas.h and device_half.h for batches: they check the values that the host knows,
// and make a Level3Batch of the rest. routines.def lists the routines. The argument lists are those of the headers.
//
// T is the type of factors, and Stored that of elements in memory. They differ only for 16-bit numbers.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "calls/argument_complaints.hpp"
#include "calls/arguments.hpp"
#include "calls/level3.hpp"
#include "core/guarded_call.hpp"
#include "core/half.hpp"
#include "device_api/batch_arguments.hpp"
#include "device_api/entry_points.hpp"
#include "kernels/half_batch.hpp"
#include "kernels/level3_batch.hpp"
#include "tessera/device_blas.h"
#include "tessera/device_half.h"

using tessera::address_of;
using tessera::Arguments;
using tessera::CArray;
using tessera::CScalar;
using tessera::index_t;
using tessera::Level3;
using tessera::Parameter;
using tessera::require_argument;
using tessera::Routine;
using tessera::Scalar;
using tessera::device_api::count_sizes;
using tessera::device_api::Enumerator;
using tessera::device_api::Form;
using tessera::device_api::guarded;
using tessera::device_api::matrix_of_each;
using tessera::device_api::place_in;
using tessera::device_api::require_aligned;
using tessera::device_api::require_array;
using tessera::device_api::require_numbers;
using tessera::device_api::require_possible_count;
using tessera::device_api::require_possible_sizes;
using tessera::device_api::require_possible_stride;
using tessera::device_api::routines_of;
using tessera::kernels::Level3Batch;
using tessera::kernels::UntypedMatrixOfEach;

namespace {

constexpr bool is_matrix(Parameter parameter) {
  return parameter == Parameter::A || parameter == Parameter::B || parameter == Parameter::C;
}
constexpr Parameter result_of(Routine routine) { return tessera::is_triangular(routine) ? Parameter::B : Parameter::C; }

constexpr int place_of(Form form, Routine routine, Parameter parameter) {
  return place_in(tessera::parameters_of(routine), form, parameter);
}
static_assert(place_of(Form::pointers, Routine::gemm, Parameter::none) == 15);
static_assert(place_of(Form::strides, Routine::gemm, Parameter::none) == 18);
static_assert(place_of(Form::sizes, Routine::gemm, Parameter::none) == 18);
static_assert(place_of(Form::sizes, Routine::syrk, Parameter::n) == 6);

constexpr int place_of_bound(Routine routine, Parameter size) {
  return place_of(Form::sizes, routine, size) - count_sizes(tessera::parameters_of(routine));
}

using Given = tessera::device_api::Given;

template <Routine routine, class... Values>
Given given(const Values&... values) {
  return tessera::device_api::given_in_order<tessera::parameters_of(routine)>(values...);
}

/// The arguments besides those of the Fortran interface.
struct Rest {
  Arguments bounds = {};                             ///< Form::sizes
  index_t stride_a = 0, stride_b = 0, stride_c = 0;  ///< Form::strides
  index_t count = 0;
  void* info = nullptr;  ///< Form::sizes

  index_t stride_behind(Parameter leading_dimension) const {
    if (leading_dimension == Parameter::lda) return stride_a;
    return leading_dimension == Parameter::ldb ? stride_b : stride_c;
  }
};

/// Checks enumerators, and the sizes and leading dimensions that the host knows.
template <Form form, Routine routine, Scalar T>
Arguments require_good(const Given& given, const Rest& rest) {
  constexpr bool is_complex = !std::floating_point<T>;
  constexpr index_t any = std::numeric_limits<index_t>::max();
  const auto value = [&](Parameter parameter) { return given.numbers[parameter].of_all; };
  Arguments sizes = rest.bounds;
  if constexpr (form == Form::sizes) {
    sizes.lda = sizes.ldb = sizes.ldc = any;
  } else {
    sizes = {.m = value(Parameter::m), .n = value(Parameter::n), .k = value(Parameter::k)};
    sizes.lda = value(Parameter::lda);
    sizes.ldb = value(Parameter::ldb);
    sizes.ldc = value(Parameter::ldc);
  }
  Arguments all = tessera::arguments_from_cblas(tessera::Layout::col_major,
                                                {.side = given.enumerators[Parameter::side],
                                                 .uplo = given.enumerators[Parameter::uplo],
                                                 .transa = given.enumerators[Parameter::transa],
                                                 .transb = given.enumerators[Parameter::transb],
                                                 .diag = given.enumerators[Parameter::diag]},
                                                sizes);
  const int bad = tessera::first_bad_argument<routine, is_complex>(all);
  if (bad != 0) {
    const Parameter parameter = tessera::parameters_of(routine)[static_cast<std::size_t>(bad - 1)];
    const bool is_bound = form == Form::sizes && is_size(parameter);
    const int place = is_bound ? place_of_bound(routine, parameter) : place_of(form, routine, parameter);
    require_argument(false, place, ((is_bound ? "max_" : "") + complaint(routine, is_complex, parameter)).c_str());
  }
  if constexpr (form == Form::sizes) all.lda = all.ldb = all.ldc = 0;  // the host does not know those of the problems
  return all;
}

template <Form form, Routine routine, class Stored>
void require_arrays(const Given& given, const Rest& rest, bool reads_operands) {
  constexpr std::size_t of_matrix = form == Form::strides ? sizeof(Stored) : sizeof(void*);
  tessera::for_each_parameter<routine>([&]<Parameter parameter>() {
    const int place = place_of(form, routine, parameter);
    if constexpr (is_matrix(parameter)) {
      if (reads_operands || parameter == result_of(routine))
        require_array(given.addresses[parameter], of_matrix, place, name_of(parameter));
    } else if constexpr (form == Form::sizes && is_number(parameter)) {
      require_numbers(given.numbers[parameter], place, name_of(parameter));
    }
    return true;
  });
  if constexpr (form == Form::sizes) {
    const std::size_t width = given.numbers[Parameter::n].is_wide ? sizeof(std::int64_t) : sizeof(int);
    require_aligned(rest.info, width, place_of(form, routine, Parameter::none) + 1, "info");
  }
}

/// Checks that all addresses in arrays, and all addresses that strides reach, exist.
template <Form form, Routine routine, class Stored>
void require_possible_problems(const Rest& rest) {
  require_possible_count(rest.count, place_of(form, routine, Parameter::none));
  if constexpr (form == Form::strides) {
    tessera::for_each_parameter<routine>([&]<Parameter parameter>() {
      if constexpr (is_leading_dimension(parameter))
        require_possible_stride(rest.stride_behind(parameter), sizeof(Stored), rest.count,
                                place_of(form, routine, parameter) + 1);
      return true;
    });
  }
}

/// @param reads_operands otherwise A and B, and arrays of their addresses, are not checked
template <Form form, Routine routine>
Level3Batch batch_of(const Level3& common, const Given& given, const Rest& rest, bool reads_operands) {
  const auto matrix = [&](Parameter parameter, Parameter leading_dimension) -> UntypedMatrixOfEach {
    return matrix_of_each(form, given.addresses[parameter], rest.stride_behind(leading_dimension));
  };
  Level3Batch batch;
  batch.common = common;
  batch.count = rest.count;
  batch.m = given.numbers[Parameter::m];
  batch.n = given.numbers[Parameter::n];
  batch.k = given.numbers[Parameter::k];
  batch.lda = given.numbers[Parameter::lda];
  if (reads_operands) batch.A = matrix(Parameter::A, Parameter::lda);
  if constexpr (tessera::is_triangular(routine)) {
    batch.ldc = given.numbers[Parameter::ldb];
    batch.C = matrix(Parameter::B, Parameter::ldb);
  } else {
    batch.ldb = given.numbers[Parameter::ldb];
    batch.ldc = given.numbers[Parameter::ldc];
    if (reads_operands) batch.B = matrix(Parameter::B, Parameter::ldb);
    batch.C = matrix(Parameter::C, Parameter::ldc);
  }
  batch.info = rest.info;
  return batch;
}

template <class Stored>
void submit(tessera::kernels::DeviceRoutines& routines, const Level3Batch& batch) {
  if constexpr (Scalar<Stored>)
    routines.run_batch(batch);
  else
    routines.run_half_batch({.stored = tessera::half_type_of<Stored>(), .products = batch});
}

template <Form form, Routine routine, Scalar T, class Stored = T>
tessera_status run(tessera_device_handle handle, const Given& given, const Rest& rest) noexcept {
  return guarded([&] {
    tessera::kernels::DeviceRoutines& routines = routines_of(handle);
    const Arguments arguments = require_good<form, routine, T>(given, rest);
    const void* const alpha = given.addresses[Parameter::alpha];
    const void* const beta = given.addresses[Parameter::beta];
    require_argument(alpha != nullptr, place_of(form, routine, Parameter::alpha), "alpha is null");
    if constexpr (!tessera::is_triangular(routine))
      require_argument(beta != nullptr, place_of(form, routine, Parameter::beta), "beta is null");
    const Level3 common =
        tessera::level3_of<routine, T>(tessera::Layout::col_major, arguments, {.alpha = alpha, .beta = beta});
    require_possible_sizes<Stored>(
        common, form == Form::sizes ? place_of_bound(routine, Parameter::n) : place_of(form, routine, Parameter::n));
    require_possible_problems<form, routine, Stored>(rest);
    if (rest.count == 0) return;
    if (form != Form::sizes && (common.m == 0 || common.n == 0)) return;
    const bool only_scales = form == Form::sizes ? common.alpha == tessera::AnyScalar(0) : common.only_scales();
    require_arrays<form, routine, Stored>(given, rest, !only_scales);
    submit<Stored>(routines, batch_of<form, routine>(common, given, rest, !only_scales));
  });
}

/// The initial value for a scalar in C. It has no commas, because these separate the arguments of a macro.
template <Routine routine>
struct InC {
  template <Scalar T>
  using Alpha = CScalar<tessera::Alpha<routine, T>>;
  template <Scalar T>
  using Beta = CScalar<tessera::Beta<routine, T>>;
};

}  // namespace

extern "C" {

tessera_status tessera_device_batch_workspace(tessera_device_handle handle, int64_t batch_count, size_t* bytes) {
  return guarded([&] {
    const tessera::kernels::DeviceRoutines& routines = routines_of(handle);
    require_possible_count(batch_count, 2);
    require_argument(bytes != nullptr, 3, "bytes is null");
    *bytes = batch_count == 0 ? 0 : routines.batch_workspace_bytes(batch_count);
  });
}

uint16_t tessera_device_float_to_half(float value) { return tessera::rounded_to<tessera::Half>(value).bits; }
float tessera_device_half_to_float(uint16_t bits) { return tessera::to_single(tessera::Half{bits}); }
uint16_t tessera_device_float_to_bfloat16(float value) { return tessera::rounded_to<tessera::BFloat16>(value).bits; }
float tessera_device_bfloat16_to_float(uint16_t bits) { return tessera::to_single(tessera::BFloat16{bits}); }

// The argument lists by shape, with the headers' names: the arguments of the Fortran interface, the bounds of the
// sizes, and the strides.
#define TESSERA_GIVEN_GEMM \
  Enumerator{transa}, Enumerator{transb}, m, n, k, address_of(alpha), A, lda, B, ldb, address_of(beta), C, ldc
#define TESSERA_BOUNDS_GEMM .m = max_m, .n = max_n, .k = max_k
#define TESSERA_STRIDES_GEMM .stride_a = stride_a, .stride_b = stride_b, .stride_c = stride_c
#define TESSERA_GIVEN_GEMMT                                                                                            \
  Enumerator{uplo}, Enumerator{transa}, Enumerator{transb}, n, k, address_of(alpha), A, lda, B, ldb, address_of(beta), \
      C, ldc
#define TESSERA_BOUNDS_GEMMT .n = max_n, .k = max_k
#define TESSERA_STRIDES_GEMMT .stride_a = stride_a, .stride_b = stride_b, .stride_c = stride_c
#define TESSERA_GIVEN_SIDED \
  Enumerator{side}, Enumerator{uplo}, m, n, address_of(alpha), A, lda, B, ldb, address_of(beta), C, ldc
#define TESSERA_BOUNDS_SIDED .m = max_m, .n = max_n
#define TESSERA_STRIDES_SIDED .stride_a = stride_a, .stride_b = stride_b, .stride_c = stride_c
#define TESSERA_GIVEN_RANK_K \
  Enumerator{uplo}, Enumerator{trans}, n, k, address_of(alpha), A, lda, address_of(beta), C, ldc
#define TESSERA_BOUNDS_RANK_K .n = max_n, .k = max_k
#define TESSERA_STRIDES_RANK_K .stride_a = stride_a, .stride_c = stride_c
#define TESSERA_GIVEN_RANK_2K \
  Enumerator{uplo}, Enumerator{trans}, n, k, address_of(alpha), A, lda, B, ldb, address_of(beta), C, ldc
#define TESSERA_BOUNDS_RANK_2K .n = max_n, .k = max_k
#define TESSERA_STRIDES_RANK_2K .stride_a = stride_a, .stride_b = stride_b, .stride_c = stride_c
#define TESSERA_GIVEN_TRIANGULAR \
  Enumerator{side}, Enumerator{uplo}, Enumerator{transa}, Enumerator{diag}, m, n, address_of(alpha), A, lda, B, ldb
#define TESSERA_BOUNDS_TRIANGULAR .m = max_m, .n = max_n
#define TESSERA_STRIDES_TRIANGULAR .stride_a = stride_a, .stride_b = stride_b

#define TESSERA_DEFINE_VBATCHED(shape, routine, name, integer, T)                                          \
  TESSERA_VBATCHED_##shape(name, integer, InC<Routine::routine>::Alpha<T>, InC<Routine::routine>::Beta<T>, \
                           CArray<T>) {                                                                    \
    return run<Form::sizes, Routine::routine, T>(                                                          \
        handle, given<Routine::routine>(TESSERA_GIVEN_##shape),                                            \
        {.bounds = {TESSERA_BOUNDS_##shape}, .count = batch_count, .info = info});                         \
  }
#define TESSERA_DEFINE(shape, routine, letter, T)                                                                     \
  TESSERA_BATCHED_##shape(letter##routine##_batched, InC<Routine::routine>::Alpha<T>, InC<Routine::routine>::Beta<T>, \
                          CArray<T>) {                                                                                \
    return run<Form::pointers, Routine::routine, T>(handle, given<Routine::routine>(TESSERA_GIVEN_##shape),           \
                                                    {.count = batch_count});                                          \
  }                                                                                                                   \
  TESSERA_STRIDED_##shape(letter##routine##_strided_batched, InC<Routine::routine>::Alpha<T>,                         \
                          InC<Routine::routine>::Beta<T>, CArray<T>) {                                                \
    return run<Form::strides, Routine::routine, T>(handle, given<Routine::routine>(TESSERA_GIVEN_##shape),            \
                                                   {TESSERA_STRIDES_##shape, .count = batch_count});                  \
  }                                                                                                                   \
  TESSERA_DEFINE_VBATCHED(shape, routine, letter##routine##_vbatched, int, T)                                         \
  TESSERA_DEFINE_VBATCHED(shape, routine, letter##routine##_vbatched_64, int64_t, T)

#define TESSERA_DEFINE_VBATCHED_HALF(routine, name, integer, T, Stored)         \
  TESSERA_VBATCHED_HALF(name, integer, InC<Routine::routine>::Alpha<T>) {       \
    return run<Form::sizes, Routine::routine, T, Stored>(                       \
        handle, given<Routine::routine>(TESSERA_GIVEN_GEMM),                    \
        {.bounds = {TESSERA_BOUNDS_GEMM}, .count = batch_count, .info = info}); \
  }
#define TESSERA_HALF(routine, letters, T, Stored)                                                                \
  TESSERA_BATCHED_HALF(letters##routine##_batched, InC<Routine::routine>::Alpha<T>) {                            \
    return run<Form::pointers, Routine::routine, T, Stored>(handle, given<Routine::routine>(TESSERA_GIVEN_GEMM), \
                                                            {.count = batch_count});                             \
  }                                                                                                              \
  TESSERA_STRIDED_HALF(letters##routine##_strided_batched, InC<Routine::routine>::Alpha<T>) {                    \
    return run<Form::strides, Routine::routine, T, Stored>(handle, given<Routine::routine>(TESSERA_GIVEN_GEMM),  \
                                                           {TESSERA_STRIDES_GEMM, .count = batch_count});        \
  }                                                                                                              \
  TESSERA_DEFINE_VBATCHED_HALF(routine, letters##routine##_vbatched, int, T, Stored)                             \
  TESSERA_DEFINE_VBATCHED_HALF(routine, letters##routine##_vbatched_64, int64_t, T, Stored)

#define TESSERA_BATCH(routine, list, letter, T) TESSERA_DEFINE(list, routine, letter, T)
#include "device_api/routines.def"

}  // extern "C"
