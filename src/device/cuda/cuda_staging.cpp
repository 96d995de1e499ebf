#include "device/cuda/cuda_staging.hpp"

#include <new>
#include <system_error>

namespace tessera::device::cuda {
namespace {

// Measured on one H200: bench/results.
constexpr index_t slot_bytes = index_t{2} << 20;
/// A thread at each of these, and some more that the device copies.
constexpr std::size_t spare_slots = 8;

}  // namespace

std::unique_ptr<CudaStaging> CudaStaging::make(StagingRing::Direction direction, int threads) {
  if (!can_order_streams_by_memory()) return nullptr;
  const std::size_t slots = static_cast<std::size_t>(threads) + spare_slots;
  const std::size_t bytes = slots * static_cast<std::size_t>(slot_bytes);
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes + slots * sizeof(StagingRing::Slot), cudaHostAllocPortable | cudaHostAllocMapped) !=
      cudaSuccess) {
    forget_error();
    return nullptr;
  }
  std::unique_ptr<CudaStaging> staging(new CudaStaging(direction, memory));
  auto* const begin = static_cast<std::byte*>(memory);
  auto* const numbers = reinterpret_cast<StagingRing::Slot*>(begin + bytes);
  for (std::size_t s = 0; s < slots; ++s) new (numbers + s) StagingRing::Slot;
  try {
    staging->ring_ = std::make_unique<StagingRing>(direction, numbers, begin, slots, slot_bytes, threads);
  } catch (const std::system_error&) {
    return nullptr;
  }
  return staging;
}

CudaStaging::~CudaStaging() {
  ring_.reset();
  if (cudaFreeHost(memory_) != cudaSuccess) forget_error();
}

bool CudaStaging::gate(cudaStream_t stream) const {
  return write_number(stream, ring_->slot(0).gate, ring_->add_gate());
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

bool CudaStaging::await_end(cudaStream_t stream, StagingRing::Use use) const {
  return await_number(stream, ring_->slot(use.slot).emptied, use.number);
}

}  // namespace tessera::device::cuda
