// A staging ring in page-locked memory, and how a stream takes part in it. Belongs to one CudaDevice.
#pragma once

#include <functional>
#include <memory>

#include "device/cuda/cuda_context.hpp"
#include "device/staging.hpp"

namespace tessera::device::cuda {

class CudaStaging {
 public:
  /// @pre the GPU's context is current
  /// @param threads that carry, `most` of them at a time; outlive this
  /// @param idle any stream without work, to see whether it can wait for numbers
  /// @return nullptr if it cannot, or memory cannot be had
  static std::unique_ptr<CudaStaging> make(StagingRing::Direction direction, StagingThreads& threads, int most,
                                           const Staging& sizes, cudaStream_t idle);
  /// @pre no stream uses the ring; the GPU's context is current
  ~CudaStaging();
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  StagingRing& ring() { return *ring_; }

  /// One copy between `host` and the device, for which the stream calls `copy` per part, between the part's place in the block on the
  /// device and `slot`. @param waits up: the stream has been told to wait, perhaps for what writes `host`
  /// @return false if the driver refused, half-way perhaps: the ring is to be abandoned, as if this or `copy` throws
  bool submit(cudaStream_t stream, Block host, Extent extent, bool waits,
              const std::function<void(const StagedPart& part, Block slot)>& copy);

 private:
  CudaStaging(StagingRing::Direction direction, void* memory) : direction_(direction), memory_(memory) {}

  /// The stream's part in one use of a slot is what it does between these.
  bool begin(cudaStream_t stream, StagingRing::Use use) const;
  bool end(cudaStream_t stream, StagingRing::Use use) const;

  StagingRing::Direction direction_;
  void* memory_;
  std::unique_ptr<StagingRing> ring_;
};

}  // namespace tessera::device::cuda
