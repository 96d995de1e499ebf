// What an error that CUDA returned means. An error that belongs to one call leaves the device as it was; one of a
// kernel or of the hardware stays with the context, and every later call returns it (it is "sticky"). Pure functions on
// error codes. Source: CUDA Runtime API, cudaError_t.
#pragma once

#include <driver_types.h>

namespace tessera::device::cuda {

/// Errors after which the process cannot use the device any more.
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

/// Whether a call was refused because some thread captures a stream: it tells nothing about what was asked for.
constexpr bool is_of_a_capture(cudaError_t error) {
  return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

/// Whether the device can go on after a call has returned `error`.
/// @param asked what a query of a stream has returned since: a sticky error comes again there
constexpr bool survives(cudaError_t error, cudaError_t asked) {
  return !is_sticky(error) && (asked == cudaSuccess || asked == cudaErrorNotReady || is_of_a_capture(asked));
}

}  // namespace tessera::device::cuda
