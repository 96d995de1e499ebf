#include "device/cuda/mapped_memory.hpp"

#include <algorithm>

#include "device/cuda/cuda_context.hpp"

namespace tessera::device::cuda {

MappedMemory::MappedMemory(int ordinal, std::span<const int> users, std::size_t chunk_bytes)
    : chunk_bytes_(chunk_bytes) {
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties_.location.id = ordinal;
  for (const int user : users) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = user;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    access_.push_back(access);
  }
}

std::unique_ptr<MappedMemory> MappedMemory::reserve(int ordinal, std::span<const int> users, std::size_t bytes,
                                                    std::size_t chunk_bytes) {
  const MemoryFunctions* const driver = memory_functions();
  if (driver == nullptr) return nullptr;
  std::unique_ptr<MappedMemory> memory(new MappedMemory(ordinal, users, chunk_bytes));
  std::size_t granularity = 0;
  if (driver->granularity(&granularity, &memory->properties_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS ||
      granularity == 0 || chunk_bytes % granularity != 0) {
    return nullptr;
  }
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + granularity - 1) / granularity * granularity;
  if (driver->reserve(&memory->address_, rounded, 0, 0, 0) != CUDA_SUCCESS) return nullptr;
  memory->reserved_bytes_ = rounded;
  memory->granularity_ = granularity;
  return memory;
}

MappedMemory::~MappedMemory() {
  shrink(0);
  if (reserved_bytes_ > 0) static_cast<void>(memory_functions()->free(address_, reserved_bytes_));
}

std::size_t MappedMemory::grow(std::size_t bytes) {
  const std::size_t wanted = std::min(bytes, reserved_bytes_);
  is_short_ = false;
  for (std::size_t size = chunk_bytes_; mapped_bytes_ < wanted;) {
    const CUresult result = map_chunk(std::min(size, reserved_bytes_ - mapped_bytes_));
    if (result == CUDA_SUCCESS) continue;
    is_short_ = result == CUDA_ERROR_OUT_OF_MEMORY;
    if (!is_short_ || size / 2 < granularity_) break;
    size /= 2;  // the device continues with the available memory
  }
  return mapped_bytes_;
}

CUresult MappedMemory::map_chunk(std::size_t bytes) {
  const MemoryFunctions& driver = *memory_functions();
  const CUdeviceptr place = address_ + mapped_bytes_;
  chunks_.reserve(chunks_.size() + 1);
  Chunk chunk{0, bytes};
  CUresult result = driver.create(&chunk.handle, bytes, &properties_, 0);
  if (result != CUDA_SUCCESS) return result;
  result = driver.map(place, bytes, 0, chunk.handle, 0);
  if (result == CUDA_SUCCESS) {
    result = driver.set_access(place, bytes, access_.data(), access_.size());
    if (result == CUDA_SUCCESS) {
      chunks_.push_back(chunk);
      mapped_bytes_ += bytes;
      return result;
    }
    static_cast<void>(driver.unmap(place, bytes));
  }
  static_cast<void>(driver.release(chunk.handle));
  return result;
}

std::size_t MappedMemory::shrink(std::size_t keep_bytes) noexcept {
  const MemoryFunctions* const driver = memory_functions();
  while (!chunks_.empty() && mapped_bytes_ - chunks_.back().bytes >= keep_bytes) {
    const Chunk chunk = chunks_.back();
    const CUdeviceptr place = address_ + (mapped_bytes_ - chunk.bytes);
    if (driver->unmap(place, chunk.bytes) != CUDA_SUCCESS) break;
    static_cast<void>(driver->release(chunk.handle));
    mapped_bytes_ -= chunk.bytes;
    chunks_.pop_back();
  }
  return mapped_bytes_;
}

}  // namespace tessera::device::cuda
