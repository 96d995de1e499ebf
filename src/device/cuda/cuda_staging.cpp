#include "device/cuda/cuda_staging.hpp"

#include <algorithm>
#include <new>
#include <vector>

namespace tessera::device::cuda {

std::unique_ptr<CudaStaging> CudaStaging::make(StagingRing::Direction direction, StagingThreads& threads, int most,
                                               const Staging& sizes, cudaStream_t idle) {
  if (!can_order_streams_by_memory()) return nullptr;
  const auto slots = static_cast<std::size_t>(sizes.slots);
  const std::size_t bytes = slots * static_cast<std::size_t>(sizes.slot_bytes);
  void* memory = nullptr;
  // The numbers of one more slot, to try.
  if (cudaHostAlloc(&memory, bytes + (slots + 1) * sizeof(StagingRing::Slot),
                    cudaHostAllocPortable | cudaHostAllocMapped) != cudaSuccess) {
    forget_error();
    return nullptr;
  }
  std::unique_ptr<CudaStaging> staging(new CudaStaging(direction, memory));
  auto* const begin = static_cast<std::byte*>(memory);
  auto* const numbers = reinterpret_cast<StagingRing::Slot*>(begin + bytes);
  for (std::size_t s = 0; s <= slots; ++s) new (numbers + s) StagingRing::Slot;
  StagingRing::Slot& trial = numbers[slots];
  const bool works = write_number(idle, trial.filled, 1) && await_number(idle, trial.filled, 1);
  // The memory may be given back below, or by whoever fails next.
  if (cudaStreamSynchronize(idle) != cudaSuccess) {
    forget_error();
    static_cast<void>(staging.release());
    return nullptr;
  }
  if (!works) return nullptr;
  staging->ring_ = std::make_unique<StagingRing>(
      direction, numbers, begin, slots, StagingRing::Sizes{sizes.slot_bytes, sizes.share_bytes}, threads, most);
  return staging;
}

CudaStaging::~CudaStaging() {
  ring_.reset();
  if (cudaFreeHost(memory_) != cudaSuccess) forget_error();
}

bool CudaStaging::submit(cudaStream_t stream, Block host, Extent extent, bool waits,
                         const std::function<void(const StagedPart& part, Block slot)>& copy) {
  const std::vector<StagedPiece> pieces = staged_pieces(extent, ring_->slot_bytes());
  std::vector<StagingRing::Use> uses;
  uses.reserve(pieces.size());
  if (waits && !write_number(stream, ring_->slot(0).gate, ring_->add_gate())) return false;
  for (const StagedPiece& piece : pieces) {
    const StagingRing::Use use = ring_->add(host, extent, piece);
    if (!begin(stream, use)) return false;
    for (const StagedPart& part : staged_parts(piece, extent)) {
      copy(part, {ring_->memory(use.slot) + (part.first - piece.first), piece.pitch_bytes()});
    }
    if (!end(stream, use)) return false;
    uses.push_back(use);
  }
  if (direction_ == StagingRing::Direction::up) return true;
  // The copy ends, and the host memory is written, when the last uses of all slots are over.
  const auto last = static_cast<std::ptrdiff_t>(std::min(uses.size(), ring_->slot_count()));
  return std::all_of(uses.end() - last, uses.end(), [&](StagingRing::Use use) {
    return await_number(stream, ring_->slot(use.slot).emptied, use.number);
  });
}

bool CudaStaging::begin(cudaStream_t stream, StagingRing::Use use) const {
  StagingRing::Slot& slot = ring_->slot(use.slot);
  return direction_ == StagingRing::Direction::up ? await_number(stream, slot.filled, use.number)
                                                  : await_number(stream, slot.emptied, use.number - 1);
}

bool CudaStaging::end(cudaStream_t stream, StagingRing::Use use) const {
  StagingRing::Slot& slot = ring_->slot(use.slot);
  return write_number(stream, direction_ == StagingRing::Direction::up ? slot.emptied : slot.filled, use.number);
}

}  // namespace tessera::device::cuda
