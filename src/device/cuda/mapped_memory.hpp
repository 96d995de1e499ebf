// Memory of a GPU behind one range of addresses, mapped chunk by chunk from its beginning. Peers get access to each
// chunk by itself. Unlike cudaDeviceEnablePeerAccess, that does not affect the rest of the process.
//
// Invariant: chunks [0, n) are mapped and accessible, and no others. All chunks have the same size, except the last
// one. Not thread-safe. Source: CUDA Driver API, Virtual Memory Management.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tessera::device::cuda {

class MappedMemory {
 public:
  /// Reserves addresses for `bytes`, rounded up to the mapping granularity.
  /// @param users GPUs with access, `ordinal` first
  /// @param chunk_bytes mapped at once, see DeviceProfile::memory_chunk_bytes
  /// @return nullptr if the driver cannot map memory, or not in such chunks
  static std::unique_ptr<MappedMemory> reserve(int ordinal, std::span<const int> users, std::size_t bytes,
                                               std::size_t chunk_bytes);
  /// Unmaps and frees everything.
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  CUdeviceptr address() const { return address_; }
  std::size_t mapped_bytes() const { return mapped_bytes_; }

  /// Maps chunks until `bytes` or all addresses are mapped, or the driver has no more memory. @return mapped bytes
  std::size_t grow(std::size_t bytes);
  /// Whether the last grow() ended for lack of memory, not because mapping is impossible.
  bool is_short() const { return is_short_; }
  /// Frees the chunks that begin at `keep_bytes` or later. @return mapped bytes
  /// @pre those chunks are not in use
  std::size_t shrink(std::size_t keep_bytes) noexcept;

 private:
  struct Chunk {
    CUmemGenericAllocationHandle handle = 0;
    std::size_t bytes = 0;
  };
  MappedMemory(int ordinal, std::span<const int> users, std::size_t chunk_bytes);
  CUresult map_chunk(std::size_t bytes);

  CUmemAllocationProp properties_{};
  std::vector<CUmemAccessDesc> access_;
  CUdeviceptr address_ = 0;
  std::size_t reserved_bytes_ = 0;
  std::size_t mapped_bytes_ = 0;
  std::size_t granularity_ = 0;
  std::size_t chunk_bytes_ = 0;
  bool is_short_ = false;
  std::vector<Chunk> chunks_;
};

}  // namespace tessera::device::cuda
