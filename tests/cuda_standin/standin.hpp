// A stand-in for CUDA where there is no GPU: the functions of libcudart, libcuda and libcublas that the plugin calls, on
// GPUs made of a thread and host memory each. What the streams of a GPU are given is done by its thread, one operation
// at a time, those of one stream in order. Here is what tests tell it and ask it; the functions themselves are those of
// NVIDIA's headers, and behave as its documentation says, as far as the plugin can tell.
//
// Failure: a call that a test names returns the error that it names, and does nothing. If the error stays with the
// context, every later call in it returns it, too; what its streams had left to do is dropped, and other GPUs' streams
// that wait for it go on: the worst that can become of them. An operation that a test names fails half-way, which always
// stays with the context.
// Source: CUDA Runtime API, CUDA Driver API, cuBLAS Library (NVIDIA).
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
  std::size_t memory_bytes = std::size_t{1} << 30;  ///< of each
  bool peers = true;                                ///< each reads every other's memory
};

/// Where something fails.
struct Fault {
  /// A function, by its name; or what a stream does: "kernel", "copy up", "copy down", "copy from peer".
  std::string call;
  std::int64_t number = 0;  ///< of such calls, counted from inject() on
  cudaError_t error = cudaErrorUnknown;
  /// With the context; cudaErrorCudartUnloading with all of them, as where the driver has ended.
  bool stays = false;
  /// Operations only: the other half is done all the same, so much later, as by an engine that nobody stops.
  std::chrono::milliseconds second_half_after{0};
};

/// A machine of new GPUs in place of the one before, which must not be in use. What that one still held, for contexts
/// that were broken, is leaked.
void start(const Settings& settings);

/// From now on calls are counted anew, and the fault happens once.
void inject(const Fault& fault);
/// Nothing fails any more, and calls are counted anew.
void count_calls();
/// Whether the fault that was injected last has happened.
bool has_happened();
/// How long after the error the second half of an operation was done; 0 before it was.
double late_half_s();
/// Calls and operations, by name, since they were counted anew.
std::map<std::string, std::int64_t> calls();

/// What has not been given back, by kind, of GPUs whose contexts work. Page-locked memory counts as long as one of them
/// works.
std::map<std::string, std::int64_t> held();

/// What no caller may do, and has done: an error that was not taken note of (cudaGetLastError) before the next call,
/// memory that was given up while an operation was to use it, a call without a context.
std::vector<std::string> offences();

/// A kernel: the stream does `work` in its turn. @return as cudaLaunchKernel, for which it stands
cudaError_t launch(cudaStream_t stream, std::function<void()> work);

}  // namespace tessera::cuda_standin
