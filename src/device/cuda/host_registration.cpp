#include "device/cuda/host_registration.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace tessera::device::cuda {
namespace {

/// Registering costs some ten microseconds and a lock in the kernel. A small operand does not repay that.
constexpr std::size_t smallest_worth_locking = std::size_t{1} << 20;

void* pointer(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): pages are found by integer arithmetic
}

bool register_pages(const PageRange& pages, bool read_only_supported) {
  void* const begin = pointer(pages.begin);
  // Portable: page-locked for all GPUs, whichever one requested it. Mapped: kernels copy triangles.
  constexpr unsigned flags = cudaHostRegisterPortable | cudaHostRegisterMapped;
  if (cudaHostRegister(begin, pages.bytes(), flags) == cudaSuccess) return true;
  forget_error();
  // An operand may lie in a read-only mapping. A plain registration would ask for write access to it.
  if (!read_only_supported) return false;
  if (cudaHostRegister(begin, pages.bytes(), flags | cudaHostRegisterReadOnly) == cudaSuccess) return true;
  forget_error();
  return false;
}

/// Whether the memory is page-locked, and kernels of the current GPU see it at the same address.
bool is_addressable(std::uintptr_t address) {
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, pointer(address));
  if (error != cudaSuccess) {
    forget_error();
    return false;
  }
  return attributes.type == cudaMemoryTypeHost && attributes.devicePointer == pointer(address);
}

}  // namespace

HostRegistry& HostRegistry::instance() {
  static HostRegistry* const registry = new HostRegistry;
  return *registry;
}

void HostRegistry::add_context(CUcontext context) {
  const std::lock_guard lock(contexts_mutex_);
  if (std::find(contexts_.begin(), contexts_.end(), context) == contexts_.end()) contexts_.push_back(context);
}

CUcontext HostRegistry::context_at(std::size_t number) noexcept {
  const std::lock_guard lock(contexts_mutex_);
  return number < contexts_.size() ? contexts_[number] : nullptr;
}

bool HostRegistry::unregister(std::uintptr_t begin, CUcontext by) noexcept {
  const CurrentContext current(by);
  if (cudaHostUnregister(pointer(begin)) == cudaSuccess) return true;
  forget_error();
  return false;
}

std::vector<std::uintptr_t> HostRegistry::acquire(CUcontext context, bool read_only_supported,
                                                  std::span<const HostRange> ranges) {
  const std::vector<PageRange> wanted = page_ranges(ranges, static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)));
  std::vector<std::uintptr_t> keys;
  const std::lock_guard lock(mutex_);
  const CurrentContext current(context);
  for (const PageRange& pages : wanted) {
    // Entries do not overlap, so only the last one that begins before the range can reach into it.
    auto entry = entries_.upper_bound(pages.begin);
    if (entry != entries_.begin() && std::prev(entry)->second.end > pages.begin) --entry;
    bool held = false;
    for (; entry != entries_.end() && entry->first < pages.end; ++entry) {
      keys.push_back(entry->first);
      ++entry->second.pinnings;
      held = true;
    }
    // The rest of this range, beside another pinning's pages, stays pageable; copies are split at its edges.
    if (held || pages.bytes() < smallest_worth_locking) continue;
    if (!is_pageable(static_cast<const std::byte*>(pointer(pages.begin))) ||
        !is_pageable(static_cast<const std::byte*>(pointer(pages.end - 1)))) {
      continue;
    }
    keys.reserve(keys.size() + 1);
    const auto place = entries_.emplace(pages.begin, Entry{pages.end, context, 1}).first;
    if (register_pages(pages, read_only_supported)) {
      keys.push_back(pages.begin);
    } else {
      entries_.erase(place);
    }
  }
  return keys;
}

void HostRegistry::release(std::span<const std::uintptr_t> keys) noexcept {
  const std::lock_guard lock(mutex_);
  for (const std::uintptr_t key : keys) {
    const auto entry = entries_.find(key);
    if (entry == entries_.end() || --entry->second.pinnings > 0) continue;
    static_cast<void>(unregister_by_any(key, entry->second.context));
    entries_.erase(entry);
  }
}

bool HostRegistry::unregister_by_any(std::uintptr_t begin, CUcontext first) noexcept {
  if (unregister(begin, first)) return true;
  for (std::size_t number = 0; CUcontext const context = context_at(number); ++number) {
    if (context != first && unregister(begin, context)) return true;
  }
  return false;
}

bool HostRegistry::lock(std::byte* begin, std::size_t bytes) noexcept {
  for (std::size_t number = 0; CUcontext const context = context_at(number); ++number) {
    if (lock_own(context, {begin, begin + bytes})) return true;
  }
  return false;
}

bool HostRegistry::unlock(std::byte* begin, std::size_t bytes) noexcept {
  CUcontext const first = context_at(0);
  return first != nullptr && unlock_own(first, {begin, begin + bytes});
}

bool HostRegistry::lock_own(CUcontext context, HostRange range) noexcept {
  const CurrentContext current(context);
  const auto begin = reinterpret_cast<std::uintptr_t>(range.begin);
  return register_pages({begin, reinterpret_cast<std::uintptr_t>(range.end)}, false);
}

bool HostRegistry::unlock_own(CUcontext context, HostRange range) noexcept {
  return unregister_by_any(reinterpret_cast<std::uintptr_t>(range.begin), context);
}

CudaHostMemory::CudaHostMemory(CUcontext context, std::size_t bytes)
    : HostMemory(bytes), context_(context), process_(getpid()) {
  locked_ = HostRegistry::instance().lock_own(context, range());
  // The memory stays locked over forks. If a parent writes to pages that it shares with a child, it gets new pages,
  // which the GPU does not know. A child does not need these pages, so it does not get them.
  if (locked_) static_cast<void>(madvise(data(), this->bytes(), MADV_DONTFORK));
}

CudaHostMemory::~CudaHostMemory() {
  // A child has neither CUDA nor this memory. Addresses that CUDA takes for locked must not be used again.
  if (locked_ && (process_ != getpid() || !HostRegistry::instance().unlock_own(context_, range()))) abandon();
}

bool HostRegistry::is_pageable(const std::byte* address) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
    forget_error();
    return false;
  }
  return attributes.type == cudaMemoryTypeUnregistered;
}

bool HostRegistry::is_cached(const std::byte* address) {
  cudaPointerAttributes attributes{};
  unsigned flags = 0;
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess || attributes.type != cudaMemoryTypeHost) {
    forget_error();
    return false;
  }
  // CUDA may not return flags for registered memory. That memory is cached, as the program allocated it.
  if (cudaHostGetFlags(&flags, const_cast<std::byte*>(address)) != cudaSuccess) forget_error();
  return (flags & cudaHostAllocWriteCombined) == 0;
}

bool HostRegistry::overlaps(HostRange range) {
  const auto begin = reinterpret_cast<std::uintptr_t>(range.begin);
  const auto end = reinterpret_cast<std::uintptr_t>(range.end);
  const std::lock_guard lock(mutex_);
  const auto after = entries_.lower_bound(end);
  return after != entries_.begin() && std::prev(after)->second.end > begin;
}

bool HostRegistry::page_locked(HostRange range) {
  const auto begin = reinterpret_cast<std::uintptr_t>(range.begin);
  const auto end = reinterpret_cast<std::uintptr_t>(range.end);
  if (begin >= end || !is_addressable(begin) || !is_addressable(end - 1)) return false;
  // Checking both ends is not enough: between two registrations there may be unlocked pages.
  {
    const std::lock_guard lock(mutex_);
    const auto after = entries_.upper_bound(begin);
    if (after != entries_.begin() && std::prev(after)->second.end >= end) return true;
  }
  const AddressRange known = allocation_around(begin);
  return known.begin <= begin && end <= known.end;
}

}  // namespace tessera::device::cuda
