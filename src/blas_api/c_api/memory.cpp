// Memory of the own C API (tessera/tessera.h): large pieces of the pool, small ones of malloc.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/environment.hpp"
#include "pool/pool_settings.hpp"
#include "pool/segment_pool.hpp"
#include "tessera/tessera.h"

using tessera::ErrnoKept;
using tessera::pool::least_of_pool;
using tessera::pool::SegmentPool;

namespace {

constexpr std::size_t alignment = 64;

/// In front of a piece of malloc's: its size, which realloc() of aligned memory must know.
struct alignas(alignment) Header {
  std::size_t bytes;
};

void* make_small(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX - 2 * sizeof(Header)) return nullptr;  // as malloc
  const std::size_t padded = (bytes + sizeof(Header) + alignment - 1) / alignment * alignment;
  auto* const header = static_cast<Header*>(std::aligned_alloc(alignment, padded));
  if (header == nullptr) return nullptr;
  header->bytes = bytes;
  return header + 1;
}
Header* header_of(void* memory) { return static_cast<Header*>(memory) - 1; }

std::size_t bytes_of(void* memory) {
  return SegmentPool::owns_piece(memory) ? SegmentPool::of_process()->capacity_of(memory) : header_of(memory)->bytes;
}

}  // namespace

extern "C" {

void* tessera_malloc(size_t size) {
  const ErrnoKept stays;
  if (size < least_of_pool) return make_small(size);
  SegmentPool::open_for_process(true);
  SegmentPool* const pool = SegmentPool::of_process();
  void* const memory = pool != nullptr ? pool->allocate(size) : nullptr;
  return memory != nullptr ? memory : make_small(size);
}

void tessera_free(void* memory) {
  const ErrnoKept stays;
  if (memory == nullptr) return;
  SegmentPool::owns_piece(memory) ? SegmentPool::of_process()->free(memory) : std::free(header_of(memory));
}

void* tessera_realloc(void* memory, size_t size) {
  const ErrnoKept stays;
  if (memory == nullptr) return tessera_malloc(size);
  if (SegmentPool::owns_piece(memory) && size >= least_of_pool) {
    if (void* const resized = SegmentPool::of_process()->resize(memory, size)) return resized;
  }
  void* const moved = tessera_malloc(size);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, memory, std::min(bytes_of(memory), size));
  tessera_free(memory);
  return moved;
}

int tessera_is_ours(const void* memory) { return SegmentPool::owns(memory) ? 1 : 0; }

}  // extern "C"
