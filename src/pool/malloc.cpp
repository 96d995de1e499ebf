// libtessera_memory.so: the malloc of a program, whose large pieces come from the pool (segment_pool.hpp). To be preloaded.
//
// Everything below TESSERA_POOL_LEAST bytes (4 MiB), and all that the pool has no room for, is the next malloc's: glibc's or
// that of another library. The next functions are looked up at the first call. The lookup may itself allocate: that comes
// from a small buffer and is never given back. Like any malloc, none of these may be called by a signal's handler.
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
  const std::size_t padded = bytes + alignment;
  const std::size_t at = early_taken.fetch_add((padded + 15) / 16 * 16);
  if (padded > sizeof(early_memory) || at > sizeof(early_memory) - padded) return nullptr;
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
  find(next_functions.free, "free");
  find(next_functions.usable_size, "malloc_usable_size");
  lookup.store(Lookup::done, std::memory_order_release);
  return &next_functions;
}

/// From so many bytes on a piece is the pool's.
std::size_t least_bytes() {
  static std::atomic<std::size_t> known = 0;
  std::size_t bytes = known.load(std::memory_order_relaxed);
  if (bytes != 0) return bytes;
  bytes = std::size_t{4} << 20;
  const char* const on = tessera::environment_variable("TESSERA_POOL");
  const char* const least = tessera::environment_variable("TESSERA_POOL_LEAST");
  if (least != nullptr && std::atoll(least) > 0) bytes = static_cast<std::size_t>(std::atoll(least));
  if (on != nullptr && std::strcmp(on, "0") == 0) bytes = std::numeric_limits<std::size_t>::max();
  known.store(bytes, std::memory_order_relaxed);
  return bytes;
}

/// nullptr: it is the next malloc's.
void* from_pool(std::size_t bytes, bool zeroed = false) {
  // The first test is all that small pieces pay for.
  if (bytes < SegmentPool::unit || bytes < least_bytes()) return nullptr;
  const ErrnoKept stays;
  SegmentPool* const pool = SegmentPool::of_process();
  return pool != nullptr ? pool->allocate(bytes, zeroed) : nullptr;
}

void* reallocate(void* memory, std::size_t bytes);

}  // namespace

#define TESSERA_FACE extern "C" __attribute__((visibility("default")))

TESSERA_FACE void* malloc(std::size_t bytes) {
  if (void* const memory = from_pool(bytes)) return memory;
  const Next* const functions = next();
  return functions != nullptr ? functions->malloc(bytes) : take_early(bytes);
}

TESSERA_FACE void free(void* memory) {
  if (SegmentPool::owns(memory)) {
    const ErrnoKept stays;
    return SegmentPool::of_process()->free(memory);
  }
  if (memory == nullptr || is_early(memory)) return;
  if (const Next* const functions = next()) functions->free(memory);
}

TESSERA_FACE void* calloc(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (!__builtin_mul_overflow(count, size, &bytes)) {
    if (void* const memory = from_pool(bytes, true)) return memory;
  }
  const Next* const functions = next();
  return functions != nullptr ? functions->calloc(count, size) : take_early(bytes);  // which is zero
}

TESSERA_FACE void* realloc(void* memory, std::size_t bytes) {
  if (memory == nullptr) return malloc(bytes);
  if (SegmentPool::owns(memory) && bytes == 0) {
    free(memory);
    return nullptr;
  }
  return reallocate(memory, bytes);
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
  return functions != nullptr ? functions->memalign(alignment, bytes)
                              : take_early(bytes, std::max<std::size_t>(alignment, 16));
}

TESSERA_FACE void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    errno = EINVAL;
    return nullptr;
  }
  return memalign(alignment, bytes);
}

TESSERA_FACE int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  if (alignment == 0 || alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  const ErrnoKept stays;
  void* const found = memalign(alignment, bytes);
  if (found == nullptr) return ENOMEM;
  *memory = found;
  return 0;
}

TESSERA_FACE void* valloc(std::size_t bytes) { return memalign(static_cast<std::size_t>(getpagesize()), bytes); }

TESSERA_FACE std::size_t malloc_usable_size(void* memory) {
  if (SegmentPool::owns(memory)) return SegmentPool::of_process()->capacity_of(memory);
  const Next* const functions = next();
  return memory == nullptr || is_early(memory) || functions == nullptr ? 0 : functions->usable_size(memory);
}

namespace {

/// @pre memory is not null; bytes is not 0 where it is the pool's
void* reallocate(void* memory, std::size_t bytes) {
  const Next* const functions = next();
  const bool is_ours = SegmentPool::owns(memory);
  if (is_ours) {
    const ErrnoKept stays;
    if (bytes >= least_bytes() && SegmentPool::of_process()->resize(memory, bytes)) return memory;
  } else if (functions != nullptr && !is_early(memory) && (bytes < SegmentPool::unit || bytes < least_bytes())) {
    return functions->realloc(memory, bytes);
  }
  const std::size_t before = is_early(memory)
                                 ? static_cast<std::size_t>(std::end(early_memory) - static_cast<std::byte*>(memory))
                                 : malloc_usable_size(memory);
  // Larger pieces of the next malloc stay there: it may move their pages without a copy.
  if (!is_ours && !is_early(memory) && functions != nullptr && before >= least_bytes())
    return functions->realloc(memory, bytes);
  void* const moved = malloc(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, memory, std::min(before, bytes));
  free(memory);
  return moved;
}

}  // namespace
