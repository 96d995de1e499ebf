// A staging ring in page-locked memory, and the stream's part in it. Belongs to one CudaDevice.
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
  /// @param threads copy threads, which outlive this; at most `most` of them at a time
  /// @param idle any stream without work, for a trial of waiting for numbers
  /// @return nullptr if a stream cannot wait for numbers, or there is no memory
  static std::unique_ptr<CudaStaging> make(StagingRing::Direction direction, StagingThreads& threads, int most,
                                           const Staging& sizes, cudaStream_t idle);
  /// @pre no stream uses the ring; the GPU's context is current
  ~CudaStaging();
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  StagingRing& ring() { return *ring_; }

  /// Submits one copy between `host` and the device. Calls `copy` for each part, between the part's place in the block
  /// on the device and `slot`.
  /// @param waits up: the stream has been told to wait, perhaps for a copy that writes `host`
  /// @param written down: receives the written slices; nullptr: the copy is not in slices
  /// @return false if the driver refused, perhaps in the middle. The ring must then be abandoned, as after an exception
  bool submit(cudaStream_t stream, Block host, Extent extent, bool waits, const WrittenSlicesPtr& written,
              const std::function<void(const StagedPart& part, Block slot)>& copy);
  /// Down: makes later work of this stream follow the ends of all copies, when host memory is written. The stream of
  /// the copies need not wait for them.
  /// @return false if the driver refused: the ring must be abandoned
  bool await_ends(cudaStream_t stream) const;

 private:
  CudaStaging(StagingRing::Direction direction, void* memory) : direction_(direction), memory_(memory) {}

  /// The parts of a piece that the stream copies, between the beginning and the end of its use of a slot.
  std::vector<StagedPart> parts_of(const StagedPiece& piece, Extent extent) const;
  NumberOperation begin_of(StagingRing::Use use) const;
  NumberOperation end_of(StagingRing::Use use) const;

  StagingRing::Direction direction_;
  void* memory_;
  std::unique_ptr<StagingRing> ring_;
  std::deque<StagingRing::Use> last_uses_;  ///< down: the last use of each slot
};

}  // namespace tessera::device::cuda
