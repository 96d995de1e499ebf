// The C entry points of tessera/device_blas.h except those of batches: they check arguments, call
// kernels::DeviceRoutines, and convert exceptions to status codes. Each library has its own DeviceRoutines
// (kernels/cuda, kernels/host). routines.def lists the routines.
#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "calls/argument_complaints.hpp"
#include "calls/arguments.hpp"
#include "calls/level3.hpp"
#include "core/guarded_call.hpp"
#include "device_api/entry_points.hpp"
#include "kernels/device_routines.hpp"
#include "tessera/device_blas.h"

using tessera::address_of;
using tessera::Arguments;
using tessera::CArray;
using tessera::CblasEnumerators;
using tessera::CScalar;
using tessera::index_t;
using tessera::Layout;
using tessera::Operands;
using tessera::Parameter;
using tessera::require_argument;
using tessera::Routine;
using tessera::Scalar;
using tessera::device_api::guarded;
using tessera::device_api::is_aligned;
using tessera::device_api::require_possible_sizes;
using tessera::device_api::routines_of;

namespace {

constexpr std::uintptr_t workspace_alignment = 256;  ///< that of cudaMalloc

constexpr int places_before = 1;  ///< arguments before those of Fortran: the handle
constexpr int place_of(Routine routine, Parameter parameter) {
  return tessera::position_of(routine, parameter) + places_before;
}

/// Checks enumerators, sizes and leading dimensions.
template <Routine routine, Scalar T>
void require_good(const Arguments& given) {
  constexpr bool is_complex = !std::floating_point<T>;
  const int bad = tessera::first_bad_argument<routine, is_complex>(given);
  tessera::require_parameter(bad == 0, routine, is_complex, bad, places_before);
}

template <Routine routine, Scalar T>
void require_operand(const void* address, Parameter parameter) {
  tessera::require_parameter(address != nullptr, routine, false, tessera::position_of(routine, parameter),
                             places_before);
  require_argument(is_aligned(address, sizeof(T)), place_of(routine, parameter),
                   "the matrix is not aligned to its elements");
}

template <Routine routine, Scalar T>
tessera_status run(tessera_device_handle handle, const CblasEnumerators& enumerators, const Arguments& sizes,
                   const Operands& operands) noexcept {
  return guarded([&] {
    tessera::kernels::DeviceRoutines& routines = routines_of(handle);
    const Arguments given = tessera::arguments_from_cblas(Layout::col_major, enumerators, sizes);
    require_good<routine, T>(given);
    require_argument(operands.alpha != nullptr, place_of(routine, Parameter::alpha), "alpha is null");
    const tessera::Level3 call = tessera::level3_of<routine, T>(Layout::col_major, given, operands);
    require_possible_sizes<T>(call, place_of(routine, Parameter::n));
    if (call.m == 0 || call.n == 0) return;
    if (!call.only_scales()) require_operand<routine, T>(operands.A, Parameter::A);
    require_operand<routine, T>(operands.C, Parameter::B);
    routines.run(call);
  });
}

template <Routine routine, Scalar T>
tessera_status ask_workspace(tessera_device_handle handle, const CblasEnumerators& enumerators, index_t m, index_t n,
                             std::size_t* bytes) noexcept {
  return guarded([&] {
    const tessera::kernels::DeviceRoutines& routines = routines_of(handle);
    const index_t ld = std::max({m, n, index_t{1}});
    const Arguments given = tessera::arguments_from_cblas(Layout::col_major, enumerators,
                                                          {.m = m, .n = n, .lda = ld, .ldb = std::max<index_t>(m, 1)});
    require_good<routine, T>(given);
    require_argument(bytes != nullptr, place_of(routine, Parameter::n) + 1, "bytes is null");
    const T alpha(1);
    const tessera::Level3 call = tessera::level3_of<routine, T>(Layout::col_major, given, {.alpha = &alpha});
    require_possible_sizes<T>(call, place_of(routine, Parameter::n));
    *bytes = m == 0 || n == 0 ? 0 : routines.workspace_bytes(call);
  });
}

}  // namespace

extern "C" {

tessera_status tessera_device_create(tessera_device_handle* handle) {
  return guarded([&] {
    require_argument(handle != nullptr, 1, "handle is null");
    *handle = nullptr;
    auto made = std::make_unique<tessera_device_struct>();
    made->routines = tessera::kernels::make_device_routines();
    *handle = made.release();
  });
}

tessera_status tessera_device_destroy(tessera_device_handle handle) {
  return guarded([&] { delete handle; });
}

tessera_status tessera_device_set_stream(tessera_device_handle handle, void* stream) {
  return guarded([&] { routines_of(handle).set_stream(stream); });
}

tessera_status tessera_device_set_workspace(tessera_device_handle handle, void* memory, size_t bytes) {
  return guarded([&] {
    tessera::kernels::DeviceRoutines& routines = routines_of(handle);
    require_argument(memory != nullptr || bytes == 0, 2, "memory is null, but bytes is not 0");
    require_argument(is_aligned(memory, workspace_alignment), 2, "memory is not aligned to 256 bytes");
    routines.set_workspace(memory, bytes);
  });
}

const char* tessera_device_last_error(void) { return tessera::last_error().text.c_str(); }

int tessera_device_last_error_position(void) { return tessera::last_error().position; }

#define TESSERA_DEVICE_TRIANGULAR(routine, letter, T)                                                                  \
  tessera_status tessera_device_##letter##routine(                                                                     \
      tessera_device_handle handle, tessera_side side, tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, \
      int64_t m, int64_t n, CScalar<T> alpha, const CArray<T>* A, int64_t lda, CArray<T>* B, int64_t ldb) {            \
    return run<Routine::routine, T>(handle, {.side = side, .uplo = uplo, .transa = transa, .diag = diag},              \
                                    {.m = m, .n = n, .lda = lda, .ldb = ldb},                                          \
                                    {address_of(alpha), A, nullptr, nullptr, B});                                      \
  }                                                                                                                    \
  tessera_status tessera_device_##letter##routine##_workspace(                                                         \
      tessera_device_handle handle, tessera_side side, tessera_uplo uplo, tessera_transpose transa, tessera_diag diag, \
      int64_t m, int64_t n, size_t* bytes) {                                                                           \
    return ask_workspace<Routine::routine, T>(handle, {.side = side, .uplo = uplo, .transa = transa, .diag = diag}, m, \
                                              n, bytes);                                                               \
  }

#define TESSERA_SHAPE_trmm TESSERA_DEVICE_TRIANGULAR
#define TESSERA_SHAPE_trsm TESSERA_DEVICE_TRIANGULAR
#define TESSERA_ROUTINE(routine, letter, T) TESSERA_SHAPE_##routine(routine, letter, T)
#include "device_api/routines.def"

}  // extern "C"
