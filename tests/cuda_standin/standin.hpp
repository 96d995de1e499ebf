// A stand-in for CUDA without a GPU: the functions of libcudart, libcuda and libcublas that the plugin calls. Each of
// its GPUs consists of a thread and host memory. The thread does the work of all of the GPU's streams, one operation at
// a time, those of one stream in order. This header is the interface for tests. The functions themselves are declared
// in NVIDIA's headers, and follow its documentation as far as the plugin depends on it.
//
// Failure: a call that a test names returns the named error, and does nothing. If the error stays with the context,
// every later call in it returns it, too. The remaining work of its streams is dropped, and streams of other GPUs that
// wait for it continue: that is the worst case for them. An operation that a test names fails half-way, which always
// stays with the context. Source: CUDA Runtime API, CUDA Driver API, cuBLAS Library (NVIDIA).
#pragma once

#include <driver_types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tessera::cuda_standin {

struct Settings {
  int gpus = 1;
  std::size_t memory_bytes = std::size_t{1} << 30;  ///< per GPU
  bool peers = true;                                ///< each GPU can access the memory of every other
  std::chrono::microseconds begins_after{0};        ///< every operation waits so long, as on a GPU that is shared
};

/// The place and kind of a failure.
struct Fault {
  /// A function, by its name, or an operation of a stream: "kernel", "copy up", "copy down", "copy from peer".
  std::string call;
  std::int64_t number = 0;  ///< among such calls, counted from inject() on
  cudaError_t error = cudaErrorUnknown;
  /// The error stays with the context; cudaErrorCudartUnloading stays with all contexts, as after the end of the
  /// driver.
  bool stays = false;
  /// Operations only: the other half is done nevertheless, so much later, as by an engine that is not stopped.
  std::chrono::milliseconds second_half_after{0};
};

/// Creates a machine of new GPUs in place of the one before, which must not be in use. Resources that the old machine
/// still holds, for broken contexts, are leaked.
void start(const Settings& settings);

/// Counts calls from zero, and lets the fault happen once.
void inject(const Fault& fault);
/// Removes the fault, and counts calls from zero.
void count_calls();
/// Whether the last injected fault has happened.
bool has_happened();
/// Seconds from the error to the second half of the operation; 0 before that half is done.
double late_half_s();
/// Calls and operations by name, since counting began.
std::map<std::string, std::int64_t> calls();

/// Unreleased resources by kind, of GPUs with working contexts. Page-locked memory counts as long as one of these
/// works.
std::map<std::string, std::int64_t> held();

/// Forbidden actions of callers: an error that was not read (cudaGetLastError) before the next call, memory that was
/// freed before an operation used it, a call without a context.
std::vector<std::string> offences();

/// A kernel: submits `work` to the stream. @return as cudaLaunchKernel, which it replaces
cudaError_t launch(cudaStream_t stream, std::function<void()> work);

}  // namespace tessera::cuda_standin
