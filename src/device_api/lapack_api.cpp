// The C entry points of tessera/device_lapack.h: they check the values that the host knows, and make a LapackBatch of
// the rest. routines.def lists the routines. The argument lists are those of the header.
#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "calls/arguments.hpp"
#include "calls/lapack.hpp"
#include "core/guarded_call.hpp"
#include "device_api/batch_arguments.hpp"
#include "device_api/entry_points.hpp"
#include "kernels/lapack_batch.hpp"
#include "tessera/device_lapack.h"

using tessera::CArray;
using tessera::index_t;
using tessera::Parameter;
using tessera::require_argument;
using tessera::Routine;
using tessera::Scalar;
using tessera::device_api::Enumerator;
using tessera::device_api::Form;
using tessera::device_api::guarded;
using tessera::device_api::is_before_stride;
using tessera::device_api::matrix_of_each;
using tessera::device_api::most_elements;
using tessera::device_api::place_in;
using tessera::device_api::require_aligned;
using tessera::device_api::require_array;
using tessera::device_api::require_numbers;
using tessera::device_api::require_possible_count;
using tessera::device_api::require_possible_stride;
using tessera::device_api::routines_of;
using tessera::kernels::LapackBatch;

namespace {

using Given = tessera::device_api::Given;

template <Scalar T>
using Real = typename tessera::RealOf<T>::type;

using tessera::has;

constexpr int place_of(Form form, Routine routine, Parameter parameter) {
  return place_in(tessera::own_parameters_of(routine), form, parameter);
}
static_assert(place_of(Form::pointers, Routine::getrf, Parameter::none) == 8);
static_assert(place_of(Form::strides, Routine::gesv, Parameter::none) == 13);
static_assert(place_of(Form::sizes, Routine::getrs, Parameter::info) == 12);

constexpr int place_of_bound(Routine routine, Parameter size) {
  return place_of(Form::sizes, routine, size) - tessera::device_api::count_sizes(tessera::own_parameters_of(routine));
}

template <Routine routine, class... Values>
Given given(const Values&... values) {
  return tessera::device_api::given_in_order<tessera::own_parameters_of(routine)>(values...);
}

/// The arguments besides those of the Fortran interface.
struct Rest {
  index_t max_m = 0, max_n = 0, max_nrhs = 0;           ///< Form::sizes
  index_t stride_a = 0, stride_ipiv = 0, stride_b = 0;  ///< Form::strides
  index_t count = 0;
  bool is_wide = false;  ///< numbers, pivots and info have 64 bits

  index_t bound(Parameter size) const {
    if (size == Parameter::m) return max_m;
    return size == Parameter::n ? max_n : max_nrhs;
  }
  index_t stride_behind(Parameter parameter) const {
    if (parameter == Parameter::lda) return stride_a;
    return parameter == Parameter::ldb ? stride_b : stride_ipiv;
  }
  std::size_t integer_bytes() const { return is_wide ? sizeof(std::int64_t) : sizeof(int); }
};

/// The checks of one function, each of which throws InvalidArgument.
template <Form form, Routine routine, Scalar T>
class Checks {
 public:
  Checks(const Given& given, const Rest& rest) : given_(given), rest_(rest) {}

  /// Checks enumerators, sizes, leading dimensions and the other values that the host knows, in the order of the
  /// arguments.
  void require_good_values() const {
    for_each([&]<Parameter parameter>() { require_good<parameter>(); });
    require_possible_sizes();
    require_possible_count(rest_.count, place_of(form, routine, Parameter::none));
    if constexpr (form == Form::strides) {
      for_each([&]<Parameter parameter>() {
        if constexpr (is_before_stride(parameter))
          require_possible_stride(rest_.stride_behind(parameter),
                                  parameter == Parameter::ipiv ? rest_.integer_bytes() : sizeof(T), rest_.count,
                                  place_of(form, routine, parameter) + 1);
      });
    }
  }

  /// Whether it is known that no matrix is read or written. @pre require_good_values()
  bool has_nothing_to_compute() const {
    if (routine == Routine::laswp && given_.numbers[Parameter::incx].of_all == 0) return true;
    if constexpr (form == Form::sizes) return false;
    if (value(Parameter::n) == 0) return true;
    if (has(routine, Parameter::m) && value(Parameter::m) == 0) return true;
    if (routine == Routine::laswp) return value(Parameter::k2) < value(Parameter::k1);
    return solves(routine) && !factors(routine) && value(Parameter::nrhs) == 0;
  }
  /// The same for B.
  bool has_no_right_hand_sides() const { return form != Form::sizes && value(Parameter::nrhs) == 0; }

  void require_arrays() const {
    const bool is_empty = has_nothing_to_compute();
    for_each([&]<Parameter parameter>() {
      const int place = place_of(form, routine, parameter);
      const std::string name = name_of(parameter);
      const void* const address = given_.addresses[parameter];
      constexpr std::size_t of_pointers = form == Form::strides ? 0 : sizeof(void*);
      if constexpr (parameter == Parameter::info) {
        if (address != nullptr || needs_info(routine)) require_array(address, rest_.integer_bytes(), place, name);
      } else if constexpr (form == Form::sizes && tessera::is_number(parameter)) {
        require_numbers(given_.numbers[parameter], place, name);
      } else if constexpr (parameter == Parameter::A || parameter == Parameter::B) {
        if (is_empty || (parameter == Parameter::B && has_no_right_hand_sides())) return;
        require_array(address, of_pointers != 0 ? of_pointers : sizeof(T), place, name);
      } else if constexpr (parameter == Parameter::ipiv) {
        constexpr bool may_be_left_out = routine == Routine::getrs || routine == Routine::getri;
        if (is_empty || (may_be_left_out && address == nullptr)) return;
        require_array(address, of_pointers != 0 ? of_pointers : rest_.integer_bytes(), place, name);
      }
    });
  }

 private:
  template <class F>
  static void for_each(F&& f) {
    constexpr tessera::Parameters parameters = tessera::own_parameters_of(routine);
    [&]<std::size_t... i>(std::index_sequence<i...>) { (f.template operator()<parameters[i]>(), ...); }
    (std::make_index_sequence<count_of(parameters)>());
  }

  index_t value(Parameter parameter) const { return given_.numbers[parameter].of_all; }

  template <Parameter parameter>
  void require_good() const {
    using enum Parameter;
    constexpr int place = place_of(form, routine, parameter);
    if constexpr (parameter == uplo) {
      require_argument(tessera::uplo_from_cblas(given_.enumerators[uplo]).has_value(), place,
                       "uplo is neither TESSERA_UPPER nor TESSERA_LOWER");
    } else if constexpr (parameter == trans) {
      require_argument(tessera::op_from_cblas(given_.enumerators[trans]).has_value(), place,
                       "trans is none of TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS");
    } else if constexpr (parameter == tiny) {
      require_argument(*static_cast<const Real<T>*>(given_.addresses[tiny]) >= 0, place,
                       "tiny is negative or not a number");
    } else if constexpr (parameter == incx) {
      const bool is_one_size = form != Form::sizes && value(k2) > value(k1);
      const index_t most = most_elements<double> / (is_one_size ? value(k2) - value(k1) : 1);
      require_argument(value(incx) <= most && value(incx) >= -most, place, "incx leads beyond any memory");
    } else if constexpr (tessera::is_size(parameter)) {
      require_good_size<parameter>();
    } else if constexpr (form != Form::sizes) {
      require_good_number<parameter>(place);
    }
  }

  template <Parameter size>
  void require_good_size() const {
    const std::string name = name_of(size);
    if constexpr (form == Form::sizes) {
      constexpr int place = place_of_bound(routine, size);
      require_argument(rest_.bound(size) >= 0, place, ("max_" + name + " is negative").c_str());
      if constexpr (inverts(routine))
        require_argument(rest_.bound(size) > 0 || rest_.count <= 0, place,
                         "max_n must be known, since the workspace depends on it");
    } else {
      constexpr int place = place_of(form, routine, size);
      require_argument(value(size) >= 0, place, (name + " is negative").c_str());
      if constexpr (size != Parameter::nrhs)
        require_argument(value(size) <= std::numeric_limits<int>::max(), place,
                         (name + " is larger than pivots and info can tell").c_str());
    }
  }

  template <Parameter parameter>
  void require_good_number(int place) const {
    using enum Parameter;
    if constexpr (parameter == lda) {
      const index_t rows = routine == Routine::laswp ? value(k2) : value(has(routine, m) ? m : n);
      require_argument(value(lda) >= std::max<index_t>(rows, 1), place,
                       "lda is smaller than the stored extent of A (or 1)");
    } else if constexpr (parameter == ldb) {
      require_argument(value(ldb) >= std::max<index_t>(value(n), 1), place,
                       "ldb is smaller than the stored extent of B (or 1)");
    } else if constexpr (parameter == k1) {
      require_argument(value(k1) >= 1, place, "k1 is not positive");
    }
  }

  /// Checks that A with n columns and B with nrhs columns fit the address space.
  void require_possible_sizes() const {
    using enum Parameter;
    const auto size = [&](Parameter parameter) {
      return form == Form::sizes ? rest_.bound(parameter) : value(parameter);
    };
    const auto is_possible = [](index_t rows, index_t cols) { return cols == 0 || rows <= most_elements<T> / cols; };
    const index_t rows = routine == Routine::laswp ? 0 : size(has(routine, m) ? m : n);
    bool possible = is_possible(std::max(rows, value(lda)), size(n));
    if (solves(routine)) possible = possible && is_possible(std::max(size(n), value(ldb)), size(nrhs));
    require_argument(possible, form == Form::sizes ? place_of_bound(routine, n) : place_of(form, routine, n),
                     "a matrix is larger than any memory");
  }

  const Given& given_;
  const Rest& rest_;
};

template <Form form, Routine routine, Scalar T>
LapackBatch batch_of(const Given& given, const Rest& rest, bool with_matrices, bool with_right_hand_sides) {
  using enum Parameter;
  const auto largest = [&](Parameter size) {
    return form == Form::sizes ? rest.bound(size) : given.numbers[size].of_all;
  };
  const auto matrix = [&](Parameter parameter, index_t stride) {
    return matrix_of_each(form, given.addresses[parameter], stride);
  };
  LapackBatch batch;
  batch.routine = routine;
  batch.type = tessera::scalar_type_of<T>();
  if constexpr (has(routine, uplo)) batch.uplo = *tessera::uplo_from_cblas(given.enumerators[uplo]);
  if constexpr (has(routine, trans)) batch.op = *tessera::op_from_cblas(given.enumerators[trans]);
  batch.count = rest.count;
  batch.max_m = largest(m);
  batch.max_n = largest(n);
  batch.max_nrhs = largest(nrhs);
  batch.m = given.numbers[m];
  batch.n = given.numbers[n];
  batch.nrhs = given.numbers[nrhs];
  batch.lda = given.numbers[lda];
  batch.ldb = given.numbers[ldb];
  batch.k1 = given.numbers[k1];
  batch.k2 = given.numbers[k2];
  batch.incx = given.numbers[incx].of_all;
  if (with_matrices) batch.A = matrix(A, rest.stride_a);
  if (with_matrices) batch.ipiv = matrix(ipiv, rest.stride_ipiv);
  if (with_right_hand_sides) batch.B = matrix(B, rest.stride_b);
  if constexpr (has(routine, tiny)) batch.tiny = *static_cast<const Real<T>*>(given.addresses[tiny]);
  batch.info = const_cast<void*>(given.addresses[info]);
  batch.is_wide = rest.is_wide;
  return batch;
}

template <Form form, Routine routine, Scalar T>
tessera_status run(tessera_device_handle handle, const Given& given, const Rest& rest) noexcept {
  return guarded([&] {
    tessera::kernels::DeviceRoutines& routines = routines_of(handle);
    const Checks<form, routine, T> checks(given, rest);
    checks.require_good_values();
    if (rest.count == 0) return;
    checks.require_arrays();
    const bool is_empty = checks.has_nothing_to_compute();
    if (is_empty && given.addresses[Parameter::info] == nullptr) return;
    routines.run_lapack_batch(
        batch_of<form, routine, T>(given, rest, !is_empty, !is_empty && !checks.has_no_right_hand_sides()));
  });
}

template <Routine routine, Scalar T>
tessera_status ask_workspace(tessera_device_handle handle, index_t max_n, index_t count, std::size_t* bytes) noexcept {
  return guarded([&] {
    const tessera::kernels::DeviceRoutines& routines = routines_of(handle);
    require_argument(max_n >= 0, 2, "max_n is negative");
    require_argument(max_n == 0 || max_n <= most_elements<T> / max_n, 2, "a matrix is larger than any memory");
    require_possible_count(count, 3);
    // Each matrix is rounded up by less than 256 bytes.
    const index_t most = most_elements<T> / (max_n * max_n + 256);
    require_argument(count <= most, 3, "the workspace is larger than any memory");
    require_argument(bytes != nullptr, 4, "bytes is null");
    LapackBatch batch;
    batch.routine = routine;
    batch.type = tessera::scalar_type_of<T>();
    batch.max_n = max_n;
    batch.count = count;
    *bytes = max_n == 0 || count == 0 ? 0 : routines.lapack_workspace_bytes(batch);
  });
}

/// The type of A's elements in C: potrs and getrs only read them. It has no commas, because these separate the
/// arguments of a macro.
template <Routine routine>
struct InC {
  template <Scalar T>
  using Factor = std::conditional_t<routine == Routine::potrs || routine == Routine::getrs, const CArray<T>, CArray<T>>;
};

}  // namespace

extern "C" {

// The argument lists by shape, with the header's names: the arguments of the Fortran interface, the bounds of the
// sizes, and the strides.
#define TESSERA_GIVEN_CHOLESKY Enumerator{uplo}, n, A, lda, info
#define TESSERA_BOUNDS_CHOLESKY .max_n = max_n
#define TESSERA_STRIDES_CHOLESKY .stride_a = stride_a
#define TESSERA_GIVEN_CHOLESKY_SOLVE Enumerator{uplo}, n, nrhs, A, lda, B, ldb, info
#define TESSERA_BOUNDS_CHOLESKY_SOLVE .max_n = max_n, .max_nrhs = max_nrhs
#define TESSERA_STRIDES_CHOLESKY_SOLVE .stride_a = stride_a, .stride_b = stride_b
#define TESSERA_GIVEN_LU m, n, A, lda, ipiv, info
#define TESSERA_BOUNDS_LU .max_m = max_m, .max_n = max_n
#define TESSERA_STRIDES_LU .stride_a = stride_a, .stride_ipiv = stride_ipiv
#define TESSERA_GIVEN_LU_NOPIV m, n, A, lda, &tiny, info
#define TESSERA_BOUNDS_LU_NOPIV .max_m = max_m, .max_n = max_n
#define TESSERA_STRIDES_LU_NOPIV .stride_a = stride_a
#define TESSERA_GIVEN_LU_SOLVE Enumerator{trans}, n, nrhs, A, lda, ipiv, B, ldb, info
#define TESSERA_BOUNDS_LU_SOLVE .max_n = max_n, .max_nrhs = max_nrhs
#define TESSERA_STRIDES_LU_SOLVE .stride_a = stride_a, .stride_ipiv = stride_ipiv, .stride_b = stride_b
#define TESSERA_GIVEN_LU_FACTOR_SOLVE n, nrhs, A, lda, ipiv, B, ldb, info
#define TESSERA_BOUNDS_LU_FACTOR_SOLVE .max_n = max_n, .max_nrhs = max_nrhs
#define TESSERA_STRIDES_LU_FACTOR_SOLVE .stride_a = stride_a, .stride_ipiv = stride_ipiv, .stride_b = stride_b
#define TESSERA_GIVEN_LU_INVERSE n, A, lda, ipiv, info
#define TESSERA_BOUNDS_LU_INVERSE .max_n = max_n
#define TESSERA_STRIDES_LU_INVERSE .stride_a = stride_a, .stride_ipiv = stride_ipiv
#define TESSERA_GIVEN_INTERCHANGES n, A, lda, k1, k2, ipiv, incx
#define TESSERA_BOUNDS_INTERCHANGES .max_n = max_n
#define TESSERA_STRIDES_INTERCHANGES .stride_a = stride_a, .stride_ipiv = stride_ipiv

#define TESSERA_DEFINE_VBATCHED(shape, routine, name, integer, T)                                            \
  TESSERA_VBATCHED_##shape(name, integer, Real<T>, InC<Routine::routine>::Factor<T>, CArray<T>) {            \
    return run<Form::sizes, Routine::routine, T>(                                                            \
        handle, given<Routine::routine>(TESSERA_GIVEN_##shape),                                              \
        {TESSERA_BOUNDS_##shape, .count = batch_count, .is_wide = sizeof(integer) == sizeof(std::int64_t)}); \
  }
#define TESSERA_DEFINE(shape, routine, letter, T)                                                                    \
  TESSERA_BATCHED_##shape(letter##routine##_batched, Real<T>, InC<Routine::routine>::Factor<T>, CArray<T>) {         \
    return run<Form::pointers, Routine::routine, T>(handle, given<Routine::routine>(TESSERA_GIVEN_##shape),          \
                                                    {.count = batch_count});                                         \
  }                                                                                                                  \
  TESSERA_STRIDED_##shape(letter##routine##_strided_batched, Real<T>, InC<Routine::routine>::Factor<T>, CArray<T>) { \
    return run<Form::strides, Routine::routine, T>(handle, given<Routine::routine>(TESSERA_GIVEN_##shape),           \
                                                   {TESSERA_STRIDES_##shape, .count = batch_count});                 \
  }                                                                                                                  \
  TESSERA_DEFINE_VBATCHED(shape, routine, letter##routine##_vbatched, int, T)                                        \
  TESSERA_DEFINE_VBATCHED(shape, routine, letter##routine##_vbatched_64, int64_t, T)

#define TESSERA_LAPACK(routine, list, letter, T) TESSERA_DEFINE(list, routine, letter, T)
#define TESSERA_LAPACK_WORKSPACE(routine, letter, T)                              \
  TESSERA_INVERSE_WORKSPACE(letter##routine) {                                    \
    return ask_workspace<Routine::routine, T>(handle, max_n, batch_count, bytes); \
  }
#include "device_api/routines.def"

}  // extern "C"
