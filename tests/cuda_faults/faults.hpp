// The ways in which calls of CUDA may fail: each by itself, and so that the context is broken.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda_standin/standin.hpp"

namespace tessera::test {

/// Whether a failure of the call may leave resources: the plugin asks once, and what is not freed then is left. If the
/// first of a device's last calls fails, the device concludes that CUDA has ended, and leaves all its resources.
inline bool gives_back(const std::string& call) {
  static const std::set<std::string> names = {"cudaGetDeviceCount", "cudaStreamSynchronize", "cudaFree",
                                              "cudaFreeHost",       "cudaHostUnregister",    "cudaStreamDestroy",
                                              "cudaEventDestroy",   "cublasDestroy_v2",      "cuMemUnmap",
                                              "cuMemRelease",       "cuMemAddressFree"};
  return names.contains(call);
}

inline bool is_operation(const std::string& call) { return call == "kernel" || call.starts_with("copy "); }

/// Whether the call concerns no context.
inline bool has_no_context(const std::string& call) {
  static const std::set<std::string> names = {"cudaGetDeviceCount",    "cudaGetDeviceProperties",
                                              "cudaDeviceGetPCIBusId", "cudaDeviceGetAttribute",
                                              "cudaGetDevice",         "cudaDeviceCanAccessPeer",
                                              "cuDeviceGet",           "cuThreadExchangeStreamCaptureMode",
                                              "cuPointerGetAttribute", "cuMemGetAllocationGranularity"};
  return names.contains(call);
}

/// Whether the call fails only if the driver fails.
inline bool fails_with_the_driver(const std::string& call) {
  return call == "cuCtxGetCurrent" || call == "cuCtxSetCurrent";
}

/// The errors that a call may return by itself.
inline std::vector<cudaError_t> errors_of(const std::string& call) {
  if (call == "cudaLaunchKernel") return {cudaErrorLaunchOutOfResources};
  if (call.starts_with("cublas")) return {cudaErrorMemoryAllocation, cudaErrorLaunchOutOfResources};
  if (call.starts_with("cudaMemcpy")) return {cudaErrorMemoryAllocation, cudaErrorInvalidValue};
  return {cudaErrorMemoryAllocation};
}

inline std::vector<cuda_standin::Fault> faults_of(const std::map<std::string, std::int64_t>& calls) {
  std::vector<cuda_standin::Fault> faults;
  for (const auto& [call, count] : calls) {
    for (const std::int64_t number : std::set<std::int64_t>{0, count / 2, count - 1}) {
      if (fails_with_the_driver(call)) {
        faults.push_back({call, number, cudaErrorCudartUnloading, true});
        continue;
      }
      if (!is_operation(call)) {
        for (const cudaError_t error : errors_of(call)) faults.push_back({call, number, error});
      }
      if (has_no_context(call)) continue;
      faults.push_back({call, number, number == 0 ? cudaErrorIllegalAddress : cudaErrorECCUncorrectable, true});
    }
  }
  return faults;
}

}  // namespace tessera::test
