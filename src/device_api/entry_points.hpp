// Shared by the C entry points of tessera/device_blas.h: the handle, and checks of arguments.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "calls/argument_complaints.hpp"
#include "calls/level3.hpp"
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

inline bool is_aligned(const void* address, std::uintptr_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

inline kernels::DeviceRoutines& routines_of(tessera_device_handle handle) {
  require_argument(handle != nullptr, 1, "handle is null");
  return *handle->routines;
}

/// The largest number of elements that fit the address space.
template <class T>
constexpr index_t most_elements = most_addressable(sizeof(T));

/// Checks that the matrices that are read or written, with elements T, fit the address space. @pre no size is negative
template <class T>
void require_possible_sizes(const Level3& call, int place) {
  if (call.m == 0 || call.n == 0) return;
  const auto is_possible = [](const StoredShape& shape, index_t ld) {
    return shape.cols == 0 || std::max(shape.rows, ld) <= most_elements<T> / shape.cols;
  };
  bool possible = is_possible({call.m, call.n}, call.ldc);
  if (!call.only_scales()) possible = possible && is_possible(shape_of_a(call), call.lda);
  if (!call.only_scales()) possible = possible && is_possible(shape_of_b(call), call.ldb);
  require_argument(possible, place, beyond_memory::matrix);
}

}  // namespace tessera::device_api
