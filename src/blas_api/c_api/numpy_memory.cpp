// NumPy's memory handler (NEP 49) with the pool behind it. python/tessera_blas/_memory.py puts it in the place of NumPy's
// own.
//
// Pieces of 4 MiB and more come from the pool, and all others from NumPy's own handler, whose cache of small pieces
// stays in use. The address of a piece tells whose it is. So this handler takes pieces of both, and it can take the place
// of NumPy's own while arrays live. It is never destroyed, because every array keeps the address of its handler.
//
// The two structures are those of numpy/ndarraytypes.h, version 1. They are declared here, so that the build needs no
// NumPy.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/environment.hpp"
#include "pool/pool_settings.hpp"
#include "pool/segment_pool.hpp"

using tessera::ErrnoKept;
using tessera::pool::least_of_pool;
using tessera::pool::SegmentPool;

namespace {

struct NumpyAllocator {
  void* context;
  void* (*malloc)(void* context, std::size_t size);
  void* (*calloc)(void* context, std::size_t count, std::size_t size);
  void* (*realloc)(void* context, void* memory, std::size_t size);
  void (*free)(void* context, void* memory, std::size_t size);
};

struct NumpyHandler {
  char name[127];
  std::uint8_t version;
  NumpyAllocator allocator;
};

/// NumPy's own, once it is known: the release of this pairs with the publication of our handler by Python.
std::atomic<const NumpyHandler*> numpys_own = nullptr;
/// Whether new pieces come from the pool. Relaxed: either answer is right for a thread that allocates meanwhile.
std::atomic<bool> pool_is_on = false;

const NumpyAllocator& own() noexcept { return numpys_own.load(std::memory_order_acquire)->allocator; }

/// nullptr: the piece is NumPy's own.
void* from_pool(std::size_t bytes, bool zeroed) noexcept {
  if (bytes < least_of_pool || !pool_is_on.load(std::memory_order_relaxed)) [[likely]]
    return nullptr;
  const ErrnoKept stays;
  SegmentPool::open_for_process(true);
  SegmentPool* const pool = SegmentPool::of_process();
  return pool != nullptr ? pool->allocate(bytes, zeroed) : nullptr;
}

/// The piece that NumPy's own handler gives. Where there is no memory, once more without what the pool keeps.
template <class Allocate>
void* from_own(Allocate allocate) noexcept {
  void* const memory = allocate();
  if (memory != nullptr) [[likely]]
    return memory;
  SegmentPool* const pool = SegmentPool::of_process();
  return pool != nullptr && pool->trim() ? allocate() : nullptr;
}

void* allocate(void*, std::size_t bytes) noexcept {
  if (void* const memory = from_pool(bytes, false)) return memory;
  return from_own([bytes] { return own().malloc(own().context, bytes); });
}

void* allocate_zeroed(void*, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (void* const memory = from_pool(bytes, true)) return memory;
  return from_own([count, size] { return own().calloc(own().context, count, size); });
}

void release(void*, void* memory, std::size_t bytes) noexcept {
  if (!SegmentPool::owns_piece(memory)) [[likely]]
    return own().free(own().context, memory, bytes);
  const ErrnoKept stays;
  SegmentPool::of_process()->free(memory);
}

// NumPy's own pieces stay its own when they grow: their size is unknown here, and realloc() moves pages without a copy.
void* resize(void* context, void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr) return allocate(context, bytes);
  if (!SegmentPool::owns_piece(memory))
    return from_own([memory, bytes] { return own().realloc(own().context, memory, bytes); });
  SegmentPool& pool = *SegmentPool::of_process();
  if (bytes >= least_of_pool) {
    const ErrnoKept stays;
    if (void* const resized = pool.resize(memory, bytes)) return resized;
  }
  void* const moved = allocate(context, bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, memory, std::min(pool.capacity_of(memory), bytes));
  release(context, memory, bytes);
  return moved;
}

constinit NumpyHandler handler{"tessera", 1, {nullptr, allocate, allocate_zeroed, resize, release}};

}  // namespace

#define TESSERA_PRIVATE extern "C" __attribute__((visibility("default")))

/// The handler with the pool, in front of NumPy's own.
/// @param numpys the handler that NumPy uses where none is set; it must live as long as the process
/// @return the same address each time; nullptr if `numpys` has another version, or another handler was given before
TESSERA_PRIVATE void* tessera_private_numpy_handler(const void* numpys) noexcept {
  if (numpys == &handler) return &handler;
  const auto* const given = static_cast<const NumpyHandler*>(numpys);
  if (given == nullptr || given->version != 1) return nullptr;
  const NumpyHandler* known = nullptr;
  const bool is_first = numpys_own.compare_exchange_strong(known, given, std::memory_order_acq_rel);
  return is_first || known == given ? &handler : nullptr;
}

/// Whether new pieces come from the pool; those that exist stay where they are. Off at first. Thread-safe.
TESSERA_PRIVATE void tessera_private_numpy_pool(int is_on) noexcept { pool_is_on.store(is_on != 0); }

/// Whether pages of the pool may be locked, as at first. If not, nothing is locked, and nothing that is used stays so: another
/// library of the process copies by CUDA itself, and may count on that. Waits for kernels that run, but not for ever.
/// @pre not what it is already
TESSERA_PRIVATE void tessera_private_numpy_locks(int are_allowed) noexcept {
  const ErrnoKept stays;
  constexpr std::chrono::milliseconds patience = std::chrono::seconds(2);
  SegmentPool::open_for_process(true);
  SegmentPool* const pool = SegmentPool::of_process();
  if (pool == nullptr) return;
  are_allowed != 0 ? pool->after_fork() : pool->before_fork(patience);
}
