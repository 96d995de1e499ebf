// A staging ring in page-locked memory, and how a stream takes part in it. Belongs to one CudaDevice.
#pragma once

#include <memory>

#include "device/cuda/cuda_context.hpp"
#include "device/staging.hpp"

namespace tessera::device::cuda {

class CudaStaging {
 public:
  /// Starts `threads` copy threads, which run where the calling thread may run. @pre the GPU's context is current
  /// @return nullptr if memory or threads cannot be had, or the driver is too old for streams to wait for numbers
  static std::unique_ptr<CudaStaging> make(StagingRing::Direction direction, int threads);
  /// @pre no stream uses the ring; the GPU's context is current
  ~CudaStaging();
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  StagingRing& ring() { return *ring_; }

  /// What is copied up from now on is not read before the stream has passed what it waits for now.
  bool gate(cudaStream_t stream) const;
  /// The stream's part in one use of a slot: what it does between begin() and end() is copying to (down) or from it (up).
  /// All return false if the driver refused.
  bool begin(cudaStream_t stream, StagingRing::Use use) const;
  bool end(cudaStream_t stream, StagingRing::Use use) const;
  /// What follows in the stream waits until the use of a slot on the way down is over, and the host memory written.
  bool await_end(cudaStream_t stream, StagingRing::Use use) const;

 private:
  CudaStaging(StagingRing::Direction direction, void* memory) : direction_(direction), memory_(memory) {}

  StagingRing::Direction direction_;
  void* memory_;
  std::unique_ptr<StagingRing> ring_;
};

}  // namespace tessera::device::cuda
