// The consequences of an error that CUDA returned. An error of a single call leaves the device as it was. An error of a
// kernel or of the hardware stays with the context, and every later call returns it (it is "sticky"). Pure functions on
// error codes. Source: CUDA Runtime API, cudaError_t.
#pragma once

#include <driver_types.h>

namespace tessera::device::cuda {

/// Whether the process cannot use the device any more after the error.
constexpr bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorCudartUnloading:
    case cudaErrorDeviceUninitialized:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

/// Whether a call was refused because a thread captures a stream. That says nothing about the call itself.
constexpr bool is_of_a_capture(cudaError_t error) {
  return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

/// Whether the device can continue after a call has returned `error`.
/// @param asked the result of a later query of a stream, which returns a sticky error again
constexpr bool survives(cudaError_t error, cudaError_t asked) {
  return !is_sticky(error) && (asked == cudaSuccess || asked == cudaErrorNotReady || is_of_a_capture(asked));
}

}  // namespace tessera::device::cuda
