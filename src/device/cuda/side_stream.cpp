#include "device/cuda/side_stream.hpp"

#include "device/cuda/cuda_context.hpp"

namespace tessera::device::cuda {

void SideStream::open(int ordinal, int priority) {
  check(ordinal, "creating a stream", cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority));
  for (cudaEvent_t* event : {&forked_, &joined_}) {
    check(ordinal, "creating an event", cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
}

void SideStream::close() noexcept {
  if (stream_ != nullptr && cudaStreamDestroy(stream_) != cudaSuccess) forget_error();
  for (cudaEvent_t* event : {&forked_, &joined_}) {
    if (*event != nullptr && cudaEventDestroy(*event) != cudaSuccess) forget_error();
    *event = nullptr;
  }
  stream_ = nullptr;
}

cudaError_t SideStream::fork_from(cudaStream_t main) {
  const cudaError_t error = cudaEventRecord(forked_, main);
  return error != cudaSuccess ? error : cudaStreamWaitEvent(stream_, forked_, 0);
}

cudaError_t SideStream::join(cudaStream_t main) {
  const cudaError_t error = cudaEventRecord(joined_, stream_);
  return error != cudaSuccess ? error : cudaStreamWaitEvent(main, joined_, 0);
}

}  // namespace tessera::device::cuda
