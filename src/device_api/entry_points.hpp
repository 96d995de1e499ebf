// Shared by the C entry points of tessera/device_blas.h: the handle, and the prologue of the functions that have one.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "calls/argument_complaints.hpp"
#include "core/addressable.hpp"
#include "core/guarded_call.hpp"
#include "kernels/device_routines.hpp"
#include "tessera/device_blas.h"

struct tessera_device_struct {
  std::unique_ptr<tessera::kernels::DeviceRoutines> routines;
};

namespace tessera::device_api {

static_assert(static_cast<int>(Failure::internal_error) == TESSERA_INTERNAL_ERROR);

template <class Body>
tessera_status guarded(Body&& body) noexcept {
  return static_cast<tessera_status>(guarded_call(std::forward<Body>(body)));
}

/// Calls body(routines) of the handle. An exception becomes a status.
template <class Body>
tessera_status with_routines(tessera_device_handle handle, Body&& body) noexcept {
  return guarded([&] {
    require_argument(handle != nullptr, 1, "handle is null");
    body(*handle->routines);
  });
}

inline bool is_aligned(const void* address, std::uintptr_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

/// Whether whole columns of a matrix fit the address space, those behind its rows included. @pre no size is negative
constexpr bool has_possible_columns(index_t rows, index_t cols, index_t ld, std::size_t element_bytes) {
  return cols == 0 || std::max(rows, ld) <= most_addressable(element_bytes) / cols;
}

/// Checks that arrays for so many problems fit the address space.
inline void require_possible_count(index_t count, int place) {
  require_argument(count >= 0, place, "batch_count is negative");
  require_argument(count <= most_addressable(sizeof(std::complex<double>)), place, beyond_memory::count);
}

}  // namespace tessera::device_api
