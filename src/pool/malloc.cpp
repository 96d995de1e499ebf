// libtessera_memory.so: the malloc of a program, whose large pieces come from the pool (segment_pool.hpp). To be preloaded.
//
// Everything below TESSERA_POOL_LEAST bytes (4 MiB), and all that the pool has no room for, is the next malloc's: glibc's or
// that of another library. The next functions are looked up at the first call. The lookup may itself allocate: that comes
// from a small buffer and is never given back. The pool is there once this library has been initialized. Like any malloc,
// none of these may be called by a signal's handler.
#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/environment.hpp"
#include "pool/pool_settings.hpp"
#include "pool/segment_pool.hpp"

namespace {

using tessera::ErrnoKept;
using tessera::pool::SegmentPool;

/// The malloc behind this one.
struct Next {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void (*free)(void*);
  std::size_t (*usable_size)(void*);
};

Next next_functions;
enum class Lookup : int { none, under_way, done };
std::atomic<Lookup> lookup = Lookup::none;  ///< the release of `done` publishes the functions

alignas(std::max_align_t) std::byte early_memory[std::size_t{64} << 10];
std::atomic<std::size_t> early_taken = 0;

bool is_early(const void* address) {
  return static_cast<std::size_t>(static_cast<const std::byte*>(address) - early_memory) < sizeof(early_memory);
}
void* take_early(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
  if (bytes > sizeof(early_memory) || alignment > sizeof(early_memory)) return nullptr;
  const std::size_t padded = (bytes + alignment + 15) / 16 * 16;
  std::size_t at = early_taken.load();
  do {
    if (padded > sizeof(early_memory) - at) return nullptr;
  } while (!early_taken.compare_exchange_weak(at, at + padded));
  std::byte* const begin = early_memory + at;
  return begin + (alignment - reinterpret_cast<std::uintptr_t>(begin) % alignment) % alignment;
}

template <class Function>
void find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  if (function == nullptr) std::abort();  // there is no process without a malloc
}

/// nullptr while they are looked up, be it by another thread.
const Next* next() {
  if (lookup.load(std::memory_order_acquire) == Lookup::done) [[likely]]
    return &next_functions;
  Lookup before = Lookup::none;
  if (!lookup.compare_exchange_strong(before, Lookup::under_way))
    return before == Lookup::done ? &next_functions : nullptr;
  find(next_functions.malloc, "malloc");
  find(next_functions.calloc, "calloc");
  find(next_functions.realloc, "realloc");
  find(next_functions.memalign, "memalign");
  find(next_functions.aligned_alloc, "aligned_alloc");
  find(next_functions.free, "free");
  find(next_functions.usable_size, "malloc_usable_size");
  lookup.store(Lookup::done, std::memory_order_release);
  return &next_functions;
}

/// From so many bytes on a piece is the pool's. Before the library is initialized no piece is.
std::atomic<std::size_t> least_bytes = std::numeric_limits<std::size_t>::max();

__attribute__((constructor)) void open_pool() {
  if (!tessera::pool::is_on("TESSERA_POOL", true)) return;
  const ErrnoKept stays;
  // A program that knows its malloc by more than the standard's functions may hand any piece to these.
  if (dlsym(RTLD_DEFAULT, "sdallocx") != nullptr) return;
  // A program that copies memory by CUDA itself counts on copies of malloc's memory to have ended when they return.
  SegmentPool::open_for_process(false);
  const std::size_t least = tessera::pool::bytes_of_setting("TESSERA_POOL_LEAST").value_or(0);
  least_bytes = std::max(least != 0 ? least : tessera::pool::least_of_pool, SegmentPool::unit);
}

bool is_for_pool(std::size_t bytes) { return bytes >= least_bytes.load(std::memory_order_relaxed); }

bool is_power_of_two(std::size_t value) { return value != 0 && (value & (value - 1)) == 0; }

/// nullptr: it is the next malloc's.
void* from_pool(std::size_t bytes, bool zeroed = false) {
  if (!is_for_pool(bytes)) [[likely]]
    return nullptr;
  const ErrnoKept stays;
  SegmentPool* const pool = SegmentPool::of_process();
  return pool != nullptr ? pool->allocate(bytes, zeroed) : nullptr;
}

/// The piece that the next malloc gives; once more without the memory that the pool keeps, where there is none.
template <class Allocate>
void* from_next(Allocate allocate) {
  void* const memory = allocate();
  if (memory != nullptr) [[likely]]
    return memory;
  SegmentPool* const pool = SegmentPool::of_process();
  return pool != nullptr && pool->trim() ? allocate() : nullptr;
}

void* move_to(std::size_t bytes, void* memory, std::size_t bytes_there) {
  void* const moved = malloc(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, memory, std::min(bytes_there, bytes));
  free(memory);
  return moved;
}

}  // namespace

#define TESSERA_FACE extern "C" __attribute__((visibility("default")))

TESSERA_FACE void* malloc(std::size_t bytes) {
  if (void* const memory = from_pool(bytes)) return memory;
  const Next* const functions = next();
  return functions != nullptr ? from_next([&] { return functions->malloc(bytes); }) : take_early(bytes);
}

TESSERA_FACE void free(void* memory) {
  if (SegmentPool::owns_piece(memory)) {
    const ErrnoKept stays;
    return SegmentPool::of_process()->free(memory);
  }
  if (memory == nullptr || is_early(memory)) return;
  if (const Next* const functions = next()) functions->free(memory);
}

TESSERA_FACE void* calloc(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (void* const memory = from_pool(bytes, true)) return memory;
  const Next* const functions = next();
  return functions != nullptr ? from_next([&] { return functions->calloc(count, size); })
                              : take_early(bytes);  // which is zero
}

TESSERA_FACE void* realloc(void* memory, std::size_t bytes) {
  if (memory == nullptr) return malloc(bytes);
  if (SegmentPool::owns_piece(memory)) {
    if (bytes == 0) {
      free(memory);
      return nullptr;
    }
    SegmentPool& pool = *SegmentPool::of_process();
    if (is_for_pool(bytes)) {
      const ErrnoKept stays;
      if (void* const resized = pool.resize(memory, bytes)) return resized;
    }
    return move_to(bytes, memory, pool.capacity_of(memory));
  }
  if (is_early(memory))
    return move_to(bytes, memory, static_cast<std::size_t>(std::end(early_memory) - static_cast<std::byte*>(memory)));
  const Next* const functions = next();
  if (functions == nullptr) return nullptr;
  if (bytes == 0) return functions->realloc(memory, 0);
  if (is_for_pool(bytes)) {
    // Larger pieces of the next malloc stay there: it may move their pages without a copy.
    const std::size_t there = functions->usable_size(memory);
    if (!is_for_pool(there)) return move_to(bytes, memory, there);
  }
  return from_next([&] { return functions->realloc(memory, bytes); });
}

TESSERA_FACE void* reallocarray(void* memory, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(memory, bytes);
}

TESSERA_FACE void* memalign(std::size_t alignment, std::size_t bytes) {
  if (alignment <= SegmentPool::unit) {
    if (void* const memory = from_pool(bytes)) return memory;
  }
  const Next* const functions = next();
  return functions != nullptr ? from_next([&] { return functions->memalign(alignment, bytes); })
                              : take_early(bytes, std::max<std::size_t>(alignment, 16));
}

TESSERA_FACE void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (is_power_of_two(alignment)) return memalign(alignment, bytes);
  const Next* const functions = next();  // C libraries differ in what they do with it
  return functions != nullptr ? functions->aligned_alloc(alignment, bytes) : nullptr;
}

TESSERA_FACE int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const ErrnoKept stays;
  void* const found = memalign(alignment, bytes);
  if (found == nullptr) return ENOMEM;
  *memory = found;
  return 0;
}

/// For libtessera.so (pool/page_locking.hpp).
TESSERA_FACE tessera::pool::LockablePool* tessera_memory_pool_2() { return SegmentPool::of_process(); }

TESSERA_FACE void* valloc(std::size_t bytes) { return memalign(static_cast<std::size_t>(getpagesize()), bytes); }

TESSERA_FACE std::size_t malloc_usable_size(void* memory) {
  if (SegmentPool::owns_piece(memory)) return SegmentPool::of_process()->capacity_of(memory);
  const Next* const functions = next();
  return memory == nullptr || is_early(memory) || functions == nullptr ? 0 : functions->usable_size(memory);
}
