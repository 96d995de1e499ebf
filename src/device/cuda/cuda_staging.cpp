#include "device/cuda/cuda_staging.hpp"

#include <algorithm>
#include <new>
#include <vector>

namespace tessera::device::cuda {
namespace {

using Kind = NumberOperation::Kind;

}  // namespace

std::unique_ptr<CudaStaging> CudaStaging::make(StagingRing::Direction direction, StagingThreads& threads, int most,
                                               const Staging& sizes, cudaStream_t idle) {
  if (!can_order_streams_by_memory()) return nullptr;
  const auto slots = static_cast<std::size_t>(sizes.slots);
  const std::size_t bytes = slots * static_cast<std::size_t>(sizes.slot_bytes);
  void* memory = nullptr;
  // Numbers for one more slot, for the trial below.
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
  const NumberOperation tried[] = {{Kind::write, &trial.filled, 1}, {Kind::await, &trial.filled, 1}};
  const bool works = submit_numbers(idle, tried);
  // The memory may be freed below, or by a later failure.
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

bool CudaStaging::submit(cudaStream_t stream, Block host, Extent extent, bool waits, const WrittenSlicesPtr& written,
                         const std::function<void(const StagedPart& part, Block slot)>& copy) {
  const index_t slot_bytes = ring_->slot_bytes();
  const std::vector<StagedPiece> pieces =
      written ? staged_slices(extent, written->kind(), slot_bytes) : staged_pieces(extent, slot_bytes);
  std::vector<NumberOperation> due;
  if (waits) due.push_back({Kind::write, &ring_->slot(0).gate, ring_->add_gate()});
  for (const StagedPiece& piece : pieces) {
    const StagingRing::Use use = ring_->add(host, extent, piece, written);
    due.push_back(begin_of(use));
    if (!submit_numbers(stream, due)) return false;
    for (const StagedPart& part : parts_of(piece, extent)) {
      copy(part, {ring_->memory(use.slot) + (part.first - piece.first), piece.pitch_bytes()});
    }
    due.assign(1, end_of(use));  // submitted with the beginning of the next use
    if (direction_ == StagingRing::Direction::up) continue;
    last_uses_.push_back(use);
    if (last_uses_.size() > ring_->slot_count()) last_uses_.pop_front();
  }
  return submit_numbers(stream, due);
}

bool CudaStaging::await_ends(cudaStream_t stream) const {
  std::vector<NumberOperation> ends;
  for (const StagingRing::Use use : last_uses_)
    ends.push_back({Kind::await, &ring_->slot(use.slot).emptied, use.number});
  return submit_numbers(stream, ends);
}

// On the way down the elements beside a triangle may go to the slot, too, which saves a kernel. The threads do not copy
// them to the matrix.
std::vector<StagedPart> CudaStaging::parts_of(const StagedPiece& piece, Extent extent) const {
  if (direction_ == StagingRing::Direction::up) return staged_parts(piece, extent);
  return {{{piece.pitch_bytes(), piece.columns}, piece.column, piece.first}};
}

NumberOperation CudaStaging::begin_of(StagingRing::Use use) const {
  StagingRing::Slot& slot = ring_->slot(use.slot);
  return direction_ == StagingRing::Direction::up ? NumberOperation{Kind::await, &slot.filled, use.number}
                                                  : NumberOperation{Kind::await, &slot.emptied, use.number - 1};
}

NumberOperation CudaStaging::end_of(StagingRing::Use use) const {
  StagingRing::Slot& slot = ring_->slot(use.slot);
  return {Kind::write, direction_ == StagingRing::Direction::up ? &slot.emptied : &slot.filled, use.number};
}

}  // namespace tessera::device::cuda
