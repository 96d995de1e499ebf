// A stream that for a while runs beside another one, so that two engines work at what is one step of that stream.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::device::cuda {

/// Used by one thread at a time, in the context that was current in open(). Not closed by its destructor: CUDA must not be called
/// while the process exits.
class SideStream {
 public:
  /// @throws DeviceLost
  void open(int ordinal, int priority);
  void close() noexcept;

  cudaStream_t stream() const { return stream_; }
  /// What comes on this stream from now on follows what `main` has now.
  cudaError_t fork_from(cudaStream_t main);
  /// What comes on `main` from now on follows what this stream has now.
  cudaError_t join(cudaStream_t main);

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t forked_ = nullptr;
  cudaEvent_t joined_ = nullptr;
};

}  // namespace tessera::device::cuda
