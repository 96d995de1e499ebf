// The C entry points of tessera/device_blas.h and device_half.h that compute nothing: the handle, workspaces of batches, errors, and
// conversions of 16-bit numbers. Each library has its own DeviceRoutines (kernels/cuda, kernels/host).
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/guarded_call.hpp"
#include "core/half.hpp"
#include "device_api/entry_points.hpp"
#include "kernels/device_routines.hpp"
#include "tessera/device_blas.h"
#include "tessera/device_half.h"

using tessera::require_argument;
using tessera::device_api::guarded;
using tessera::device_api::with_routines;
using tessera::kernels::DeviceRoutines;

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
  return with_routines(handle, [&](DeviceRoutines& routines) { routines.set_stream(stream); });
}

tessera_status tessera_device_set_workspace(tessera_device_handle handle, void* memory, size_t bytes) {
  return with_routines(handle, [&](DeviceRoutines& routines) {
    constexpr std::uintptr_t alignment = 256;  // that of cudaMalloc
    require_argument(memory != nullptr || bytes == 0, 2, "memory is null, but bytes is not 0");
    require_argument(tessera::device_api::is_aligned(memory, alignment), 2, "memory is not aligned to 256 bytes");
    routines.set_workspace(memory, bytes);
  });
}

tessera_status tessera_device_batch_workspace(tessera_device_handle handle, int64_t batch_count, size_t* bytes) {
  return with_routines(handle, [&](const DeviceRoutines& routines) {
    tessera::device_api::require_possible_count(batch_count, 2);
    require_argument(bytes != nullptr, 3, "bytes is null");
    *bytes = batch_count == 0 ? 0 : routines.batch_workspace_bytes(batch_count);
  });
}

const char* tessera_device_last_error(void) { return tessera::last_error().text.c_str(); }

int tessera_device_last_error_position(void) { return tessera::last_error().position; }

uint16_t tessera_device_float_to_half(float value) { return tessera::rounded_to<tessera::Half>(value).bits; }
float tessera_device_half_to_float(uint16_t bits) { return tessera::to_single(tessera::Half{bits}); }
uint16_t tessera_device_float_to_bfloat16(float value) { return tessera::rounded_to<tessera::BFloat16>(value).bits; }
float tessera_device_bfloat16_to_float(uint16_t bits) { return tessera::to_single(tessera::BFloat16{bits}); }

}  // extern "C"
