// Shared by the functions of the stand-in for cuSOLVER.
#pragma once

#include <cusolverDn.h>

#include "tests/cuda_standin/machine.hpp"

struct cusolverDnContext {
  tessera::cuda_standin::Gpu* gpu = nullptr;
  cudaStream_t stream = nullptr;
};

namespace tessera::cuda_standin {

inline cusolverStatus_t status_of(const Call& call) {
  return call.error() == cudaErrorMemoryAllocation ? CUSOLVER_STATUS_ALLOC_FAILED : CUSOLVER_STATUS_EXECUTION_FAILED;
}

/// Submits `work` to the stream.
template <class Work>
cusolverStatus_t compute(const char* name, cusolverDnHandle_t handle, Work work) {
  const Call call(name, handle->gpu);
  if (!call) return status_of(call);
  submit(stream_of(handle->stream, name), {.kind = "kernel", .work = [work](int half) {
                                             if (half == 1) work();
                                           }});
  return CUSOLVER_STATUS_SUCCESS;
}

}  // namespace tessera::cuda_standin
