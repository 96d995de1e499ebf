// A staging ring in page-locked memory, and how a stream takes part in it. Belongs to one CudaDevice.
#pragma once

#include <deque>
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
  /// @param written down: in slices, of which it is told; nullptr: as it comes
  /// @return false if the driver refused, half-way perhaps: the ring is to be abandoned, as if this or `copy` throws
  bool submit(cudaStream_t stream, Block host, Extent extent, bool waits, const WrittenSlicesPtr& written,
              const std::function<void(const StagedPart& part, Block slot)>& copy);
  /// Down: what comes on this stream from now on follows the ends of all copies, when host memory is written.
  /// The stream of the copies itself need not wait for them.
  /// @return false if the driver refused: the ring is to be abandoned
  bool await_ends(cudaStream_t stream) const;

 private:
  CudaStaging(StagingRing::Direction direction, void* memory) : direction_(direction), memory_(memory) {}

  /// What the stream copies of a piece, between what begins and ends its part in the use of a slot.
  std::vector<StagedPart> parts_of(const StagedPiece& piece, Extent extent) const;
  NumberOperation begin_of(StagingRing::Use use) const;
  NumberOperation end_of(StagingRing::Use use) const;

  StagingRing::Direction direction_;
  void* memory_;
  std::unique_ptr<StagingRing> ring_;
  std::deque<StagingRing::Use> last_uses_;  ///< down: of the slots
};

}  // namespace tessera::device::cuda
