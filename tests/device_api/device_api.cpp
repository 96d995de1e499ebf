#include "tests/device_api/device_api.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace tessera::test {
namespace {

using kernels::LapackBatch;
using kernels::Level3Batch;
using kernels::NumberOfEach;
using kernels::UntypedMatrixOfEach;

template <class Function>
void resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("no ") + name);
}

tessera_side side_of(const Level3& call) { return call.side == Side::left ? TESSERA_LEFT : TESSERA_RIGHT; }
tessera_uplo to_c(Uplo uplo) { return uplo == Uplo::lower ? TESSERA_LOWER : TESSERA_UPPER; }
tessera_uplo uplo_of(const Level3& call) { return to_c(call.uplo); }
tessera_diag diag_of(const Level3& call) { return call.diag == Diag::unit ? TESSERA_UNIT : TESSERA_NON_UNIT; }
tessera_transpose transpose_of(Op op) {
  if (op == Op::no_trans) return TESSERA_NO_TRANS;
  return op == Op::trans ? TESSERA_TRANS : TESSERA_CONJ_TRANS;
}

template <Scalar T, class Function>
tessera_status run_triangular(Function* function, tessera_device_handle handle, const Level3& call) {
  const T alpha = scalar_cast<T>(call.alpha);
  const auto passed = [&] {
    if constexpr (std::floating_point<T>) {
      return alpha;
    } else {
      return static_cast<const void*>(&alpha);
    }
  }();
  return function(handle, side_of(call), uplo_of(call), transpose_of(call.op_a), diag_of(call), call.m, call.n, passed,
                  static_cast<const CArray<T>*>(call.A), call.lda, static_cast<CArray<T>*>(call.C), call.ldc);
}

template <class Function>
tessera_status ask_triangular(Function* function, tessera_device_handle handle, const Level3& call,
                              std::size_t* bytes) {
  return function(handle, side_of(call), uplo_of(call), transpose_of(call.op_a), diag_of(call), call.m, call.n, bytes);
}

/// The types of numbers and matrices in the functions of a form.
template <BatchForm form>
struct Passed {
  static constexpr bool has_arrays = test::has_arrays(form);
  using Integer = std::conditional_t<form == BatchForm::wide_sizes, std::int64_t, int>;

  static auto number(const NumberOfEach& number) {
    if constexpr (has_arrays)
      return std::tuple(static_cast<const Integer*>(number.of_each));
    else
      return std::tuple(number.of_all);
  }
  template <class Element>
  static auto matrix(const UntypedMatrixOfEach& matrix) {
    if constexpr (form == BatchForm::strides)
      return std::tuple(static_cast<Element*>(const_cast<void*>(matrix.first)));
    else
      return std::tuple(static_cast<Element* const*>(matrix.of_each));
  }
  static auto leading_dimension(const NumberOfEach& ld, const UntypedMatrixOfEach& matrix) {
    if constexpr (form == BatchForm::strides)
      return std::tuple(ld.of_all, matrix.distance);
    else
      return number(ld);
  }
};

/// A batch as the arguments of one of its functions, in the order of the Fortran interface.
/// @tparam T type of factors
/// @tparam Element type of matrices in C
template <Routine routine, Scalar T, BatchForm form, class Element = CArray<T>>
class BatchArguments : Passed<form> {
 public:
  explicit BatchArguments(const Level3Batch& batch)
      : batch_(batch),
        alpha_(scalar_cast<Alpha<routine, T>>(batch.common.alpha)),
        beta_(scalar_cast<Beta<routine, T>>(batch.common.beta)) {}

  auto all() const {
    constexpr Parameters parameters = parameters_of(routine);
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return std::tuple_cat(at<parameters[i]>()...); }
    (std::make_index_sequence<most_parameters>());
  }

 private:
  using Passed<form>::has_arrays;
  using Passed<form>::leading_dimension;
  using Passed<form>::number;

  template <Parameter parameter>
  auto at() const {
    using enum Parameter;
    if constexpr (parameter == side) return std::tuple(side_of(batch_.common));
    if constexpr (parameter == uplo) return std::tuple(uplo_of(batch_.common));
    if constexpr (parameter == transa) return std::tuple(transpose_of(batch_.common.op_a));
    if constexpr (parameter == transb) return std::tuple(transpose_of(batch_.common.op_b));
    if constexpr (parameter == diag) return std::tuple(diag_of(batch_.common));
    if constexpr (parameter == m) return std::tuple_cat(bounds(), number(batch_.m));
    if constexpr (parameter == n) {
      if constexpr (position_of(routine, m) == 0)
        return std::tuple_cat(bounds(), number(batch_.n));
      else
        return number(batch_.n);
    }
    if constexpr (parameter == k) return number(batch_.k);
    if constexpr (parameter == alpha) return scalar(alpha_);
    if constexpr (parameter == A) return Passed<form>::template matrix<const Element>(batch_.A);
    if constexpr (parameter == lda) return leading_dimension(batch_.lda, batch_.A);
    if constexpr (is_triangular(routine)) {
      if constexpr (parameter == B) return Passed<form>::template matrix<Element>(batch_.C);
      if constexpr (parameter == ldb) return leading_dimension(batch_.ldc, batch_.C);
    } else {
      if constexpr (parameter == B) return Passed<form>::template matrix<const Element>(batch_.B);
      if constexpr (parameter == ldb) return leading_dimension(batch_.ldb, batch_.B);
    }
    if constexpr (parameter == beta) return scalar(beta_);
    if constexpr (parameter == C) return Passed<form>::template matrix<Element>(batch_.C);
    if constexpr (parameter == ldc) return leading_dimension(batch_.ldc, batch_.C);
    if constexpr (parameter == none) return std::tuple();
  }

  auto bounds() const {
    const Level3& bound = batch_.common;
    if constexpr (!has_arrays)
      return std::tuple();
    else if constexpr (position_of(routine, Parameter::m) == 0)
      return std::tuple(bound.n, bound.k);
    else if constexpr (position_of(routine, Parameter::k) == 0)
      return std::tuple(bound.m, bound.n);
    else
      return std::tuple(bound.m, bound.n, bound.k);
  }
  template <class S>
  static auto scalar(const S& value) {
    if constexpr (std::floating_point<S>)
      return std::tuple(value);
    else
      return std::tuple(static_cast<const void*>(&value));
  }
  const Level3Batch& batch_;
  Alpha<routine, T> alpha_;
  Beta<routine, T> beta_;
};

template <Routine routine, Scalar T, BatchForm form, class Element = CArray<T>, class Function>
tessera_status run_form(Function* function, tessera_device_handle handle, const Level3Batch& batch) {
  const BatchArguments<routine, T, form, Element> arguments(batch);
  return std::apply(
      [&](const auto&... given) {
        if constexpr (form == BatchForm::sizes)
          return function(handle, given..., batch.count, static_cast<int*>(batch.info));
        else if constexpr (form == BatchForm::wide_sizes)
          return function(handle, given..., batch.count, static_cast<std::int64_t*>(batch.info));
        else
          return function(handle, given..., batch.count);
      },
      arguments.all());
}

/// The same for LAPACK's routines.
template <Routine routine, Scalar T, BatchForm form>
class LapackArguments : Passed<form> {
 public:
  explicit LapackArguments(const LapackBatch& batch) : batch_(batch) {}

  auto all() const {
    constexpr Parameters parameters = own_parameters_of(routine);
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return std::tuple_cat(at<parameters[i]>()...); }
    (std::make_index_sequence<most_parameters>());
  }

 private:
  using Passed<form>::leading_dimension;
  using Passed<form>::number;
  using Integer = typename Passed<form>::Integer;

  template <Parameter parameter>
  auto at() const {
    using enum Parameter;
    using Real = typename RealOf<T>::type;
    constexpr bool is_read_only = routine == Routine::potrs || routine == Routine::getrs;
    using Factor = std::conditional_t<is_read_only, const CArray<T>, CArray<T>>;
    if constexpr (parameter == uplo) return std::tuple(to_c(batch_.uplo));
    if constexpr (parameter == trans) return std::tuple(transpose_of(batch_.op));
    if constexpr (parameter == m) return std::tuple_cat(bounds(), number(batch_.m));
    if constexpr (parameter == n) {
      if constexpr (position_of(routine, m) == 0)
        return std::tuple_cat(bounds(), number(batch_.n));
      else
        return number(batch_.n);
    }
    if constexpr (parameter == nrhs) return number(batch_.nrhs);
    if constexpr (parameter == A) return Passed<form>::template matrix<Factor>(batch_.A);
    if constexpr (parameter == lda) return leading_dimension(batch_.lda, batch_.A);
    if constexpr (parameter == tiny) return std::tuple(static_cast<Real>(batch_.tiny));
    if constexpr (parameter == ipiv) {
      const auto pivots = Passed<form>::template matrix<Integer>(batch_.ipiv);
      if constexpr (form == BatchForm::strides)
        return std::tuple_cat(pivots, std::tuple(batch_.ipiv.distance));
      else
        return pivots;
    }
    if constexpr (parameter == B) return Passed<form>::template matrix<CArray<T>>(batch_.B);
    if constexpr (parameter == ldb) return leading_dimension(batch_.ldb, batch_.B);
    if constexpr (parameter == k1) return number(batch_.k1);
    if constexpr (parameter == k2) return number(batch_.k2);
    if constexpr (parameter == incx) return std::tuple(batch_.incx);
    if constexpr (parameter == info) return std::tuple(static_cast<Integer*>(batch_.info));
    if constexpr (parameter == none) return std::tuple();
  }

  auto bounds() const {
    if constexpr (!Passed<form>::has_arrays)
      return std::tuple();
    else if constexpr (position_of(routine, Parameter::m) != 0)
      return std::tuple(batch_.max_m, batch_.max_n);
    else if constexpr (solves(routine))
      return std::tuple(batch_.max_n, batch_.max_nrhs);
    else
      return std::tuple(batch_.max_n);
  }

  const LapackBatch& batch_;
};

template <Routine routine, Scalar T, BatchForm form, class Function>
tessera_status run_lapack_form(Function* function, tessera_device_handle handle, const LapackBatch& batch) {
  return std::apply([&](const auto&... given) { return function(handle, given..., batch.count); },
                    LapackArguments<routine, T, form>(batch).all());
}

}  // namespace

BatchForm form_of(const Level3Batch& batch) {
  if (batch.has_sizes_of_each()) return batch.n.is_wide ? BatchForm::wide_sizes : BatchForm::sizes;
  return batch.C.of_each != nullptr ? BatchForm::pointers : BatchForm::strides;
}

BatchForm form_of(const LapackBatch& batch) {
  if (batch.has_sizes_of_each()) return batch.is_wide ? BatchForm::wide_sizes : BatchForm::sizes;
  return batch.A.of_each != nullptr ? BatchForm::pointers : BatchForm::strides;
}

DeviceApi::DeviceApi(const std::string& path) {
  // Never closed: none of these libraries can be unloaded.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
#define TESSERA_FUNCTION(name) resolve(library, #name, name);
#define TESSERA_ROUTINE(routine, letter, T)                                               \
  resolve(library, "tessera_device_" #letter #routine, tessera_device_##letter##routine); \
  resolve(library, "tessera_device_" #letter #routine "_workspace", tessera_device_##letter##routine##_workspace);
#define TESSERA_RESOLVE_BATCH(routine, letter)                                                                   \
  resolve(library, "tessera_device_" #letter #routine "_batched", tessera_device_##letter##routine##_batched);   \
  resolve(library, "tessera_device_" #letter #routine "_strided_batched",                                        \
          tessera_device_##letter##routine##_strided_batched);                                                   \
  resolve(library, "tessera_device_" #letter #routine "_vbatched", tessera_device_##letter##routine##_vbatched); \
  resolve(library, "tessera_device_" #letter #routine "_vbatched_64", tessera_device_##letter##routine##_vbatched_64);
#define TESSERA_BATCH(routine, list, letter, T) TESSERA_RESOLVE_BATCH(routine, letter)
#define TESSERA_LAPACK(routine, list, letter, T) TESSERA_RESOLVE_BATCH(routine, letter)
#define TESSERA_HALF(routine, letters, T, Stored) TESSERA_RESOLVE_BATCH(routine, letters)
#define TESSERA_LAPACK_WORKSPACE(routine, letter, T)                        \
  resolve(library, "tessera_device_" #letter #routine "_batched_workspace", \
          tessera_device_##letter##routine##_batched_workspace);
#include "device_api/routines.def"
}

#define TESSERA_RUN_trsm run_triangular
#define TESSERA_RUN_trmm run_triangular
#define TESSERA_ASK_trsm ask_triangular
#define TESSERA_ASK_trmm ask_triangular

tessera_status DeviceApi::run(tessera_device_handle handle, const Level3& call) const {
#define TESSERA_ROUTINE(routine_, letter, T)                                 \
  if (call.routine == Routine::routine_ && call.type == scalar_type_of<T>()) \
    return TESSERA_RUN_##routine_<T>(tessera_device_##letter##routine_, handle, call);
#include "device_api/routines.def"
  throw std::logic_error("no such routine");
}

tessera_status DeviceApi::workspace(tessera_device_handle handle, const Level3& call, std::size_t* bytes) const {
#define TESSERA_ROUTINE(routine_, letter, T)                                 \
  if (call.routine == Routine::routine_ && call.type == scalar_type_of<T>()) \
    return TESSERA_ASK_##routine_(tessera_device_##letter##routine_##_workspace, handle, call, bytes);
#include "device_api/routines.def"
  throw std::logic_error("no such routine");
}

tessera_status DeviceApi::run_batch(tessera_device_handle handle, BatchForm form, const Level3Batch& batch) const {
#define TESSERA_BATCH(routine_, list, letter, T)                                                                       \
  if (batch.common.routine == Routine::routine_ && batch.common.type == scalar_type_of<T>()) {                         \
    switch (form) {                                                                                                    \
      case BatchForm::pointers:                                                                                        \
        return run_form<Routine::routine_, T, BatchForm::pointers>(tessera_device_##letter##routine_##_batched,        \
                                                                   handle, batch);                                     \
      case BatchForm::strides:                                                                                         \
        return run_form<Routine::routine_, T, BatchForm::strides>(tessera_device_##letter##routine_##_strided_batched, \
                                                                  handle, batch);                                      \
      case BatchForm::sizes:                                                                                           \
        return run_form<Routine::routine_, T, BatchForm::sizes>(tessera_device_##letter##routine_##_vbatched, handle,  \
                                                                batch);                                                \
      case BatchForm::wide_sizes:                                                                                      \
        return run_form<Routine::routine_, T, BatchForm::wide_sizes>(tessera_device_##letter##routine_##_vbatched_64,  \
                                                                     handle, batch);                                   \
    }                                                                                                                  \
  }
#include "device_api/routines.def"
  throw std::logic_error("no such batch");
}

tessera_status DeviceApi::run_half(tessera_device_handle handle, BatchForm form,
                                   const kernels::HalfBatch& batch) const {
  const Level3Batch& given = batch.products;
#define TESSERA_HALF(routine_, letters, T, Stored)                                                                     \
  if (batch.stored == half_type_of<Stored>()) {                                                                        \
    switch (form) {                                                                                                    \
      case BatchForm::pointers:                                                                                        \
        return run_form<Routine::routine_, T, BatchForm::pointers, void>(tessera_device_##letters##routine_##_batched, \
                                                                         handle, given);                               \
      case BatchForm::strides:                                                                                         \
        return run_form<Routine::routine_, T, BatchForm::strides, void>(                                               \
            tessera_device_##letters##routine_##_strided_batched, handle, given);                                      \
      case BatchForm::sizes:                                                                                           \
        return run_form<Routine::routine_, T, BatchForm::sizes, void>(tessera_device_##letters##routine_##_vbatched,   \
                                                                      handle, given);                                  \
      case BatchForm::wide_sizes:                                                                                      \
        return run_form<Routine::routine_, T, BatchForm::wide_sizes, void>(                                            \
            tessera_device_##letters##routine_##_vbatched_64, handle, given);                                          \
    }                                                                                                                  \
  }
#include "device_api/routines.def"
  throw std::logic_error("no such batch");
}

tessera_status DeviceApi::run_lapack(tessera_device_handle handle, BatchForm form, const LapackBatch& batch) const {
#define TESSERA_LAPACK(routine_, list, letter, T)                                                                      \
  if (batch.routine == Routine::routine_ && batch.type == scalar_type_of<T>()) {                                       \
    switch (form) {                                                                                                    \
      case BatchForm::pointers:                                                                                        \
        return run_lapack_form<Routine::routine_, T, BatchForm::pointers>(tessera_device_##letter##routine_##_batched, \
                                                                          handle, batch);                              \
      case BatchForm::strides:                                                                                         \
        return run_lapack_form<Routine::routine_, T, BatchForm::strides>(                                              \
            tessera_device_##letter##routine_##_strided_batched, handle, batch);                                       \
      case BatchForm::sizes:                                                                                           \
        return run_lapack_form<Routine::routine_, T, BatchForm::sizes>(tessera_device_##letter##routine_##_vbatched,   \
                                                                       handle, batch);                                 \
      case BatchForm::wide_sizes:                                                                                      \
        return run_lapack_form<Routine::routine_, T, BatchForm::wide_sizes>(                                           \
            tessera_device_##letter##routine_##_vbatched_64, handle, batch);                                           \
    }                                                                                                                  \
  }
#include "device_api/routines.def"
  throw std::logic_error("no such batch");
}

tessera_status DeviceApi::lapack_workspace(tessera_device_handle handle, const LapackBatch& batch,
                                           std::size_t* bytes) const {
#define TESSERA_LAPACK_WORKSPACE(routine_, letter, T)                          \
  if (batch.routine == Routine::routine_ && batch.type == scalar_type_of<T>()) \
    return tessera_device_##letter##routine_##_batched_workspace(handle, batch.max_n, batch.count, bytes);
#include "device_api/routines.def"
  throw std::logic_error("needs no workspace");
}

std::vector<DeviceRoutine> all_device_routines() {
  std::vector<DeviceRoutine> all;
#define TESSERA_ROUTINE(routine, letter, T) all.push_back({Routine::routine, scalar_type_of<T>()});
#include "device_api/routines.def"
  return all;
}

std::vector<DeviceRoutine> all_batch_routines() {
  std::vector<DeviceRoutine> all;
#define TESSERA_BATCH(routine, list, letter, T) all.push_back({Routine::routine, scalar_type_of<T>()});
#include "device_api/routines.def"
  return all;
}

std::vector<Routine> all_lapack_routines() {
  std::vector<Routine> all;
#define TESSERA_LAPACK(routine, list, letter, T) \
  if (scalar_type_of<T>() == ScalarType::d) all.push_back(Routine::routine);
#include "device_api/routines.def"
  return all;
}

std::vector<Routine> distinct(const std::vector<DeviceRoutine>& routines) {
  std::vector<Routine> distinct;
  for (const DeviceRoutine& one : routines) {
    if (std::ranges::find(distinct, one.routine) == distinct.end()) distinct.push_back(one.routine);
  }
  return distinct;
}

}  // namespace tessera::test
