// A stream that temporarily runs beside another one, so that two engines work on one step of that stream.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::device::cuda {

/// One thread at a time may use it, in the context that was current in open(). Its destructor does not close it: CUDA
/// must not be called while the process exits.
class SideStream {
 public:
  /// @throws DeviceLost
  void open(int ordinal, int priority);
  void close() noexcept;

  cudaStream_t stream() const { return stream_; }
  /// Makes later work of this stream follow the present work of `main`.
  cudaError_t fork_from(cudaStream_t main);
  /// Makes later work of `main` follow the present work of this stream.
  cudaError_t join(cudaStream_t main);

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t forked_ = nullptr;
  cudaEvent_t joined_ = nullptr;
};

}  // namespace tessera::device::cuda
