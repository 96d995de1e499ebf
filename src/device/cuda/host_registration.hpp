// Host memory that the plugin has page-locked, for the whole process.
//
// Invariants: we register a page at most once. It is unregistered when the last pinning that covers it is gone, so that
// two contexts can compute on one matrix at a time. Registrations of the application (or another library) are never
// touched. A registration never outlives the job that requested it. Memory of our own (CudaHostMemory, segments of a
// pool) is the exception: whoever owns it decides.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/page_locker.hpp"
#include "device/cuda/cuda_context.hpp"
#include "device/device.hpp"
#include "device/host_memory.hpp"
#include "device/page_ranges.hpp"

namespace tessera::device::cuda {

class HostRegistry final : public PageLocker {
 public:
  /// The only instance; never destroyed.
  static HostRegistry& instance();

  /// Adds a context that can unregister memory for another context if that one breaks. For CUDA, memory stays
  /// registered until a context unregisters it. Contexts are never released.
  void add_context(CUcontext context);

  /// Page-locks the parts that are not locked yet, each merged range in one call: a copy cannot cross the edge between
  /// two registrations. Memory that cannot be locked stays pageable.
  /// @return keys for release(); empty if no part of these ranges is held
  std::vector<std::uintptr_t> acquire(CUcontext context, bool read_only_supported, std::span<const HostRange> ranges);
  void release(std::span<const std::uintptr_t> keys) noexcept;

  /// Whether CUDA does not know the memory there. Never throws.
  static bool is_pageable(const std::byte* address);

  /// Whether the memory there is page-locked host memory that processors read through their caches: neither managed nor
  /// write-combined. Never throws.
  static bool is_cached(const std::byte* address);

  /// Locks memory of our own. It is no entry, since no job's end unlocks it. @return false: it stays pageable
  bool lock_own(CUcontext context, HostRange range) noexcept;
  /// @return false: CUDA did not release it
  bool unlock_own(CUcontext context, HostRange range) noexcept;

  /// Locks and unlocks memory of our own by the first context that can.
  bool lock(std::byte* begin, std::size_t bytes) noexcept override;
  bool unlock(std::byte* begin, std::size_t bytes) noexcept override;

  /// Whether we have page-locked some of the range, for any job. Thread-safe.
  bool overlaps(HostRange range);

  /// Whether all of the range is one page-locked allocation or registration, ours or the application's, which kernels
  /// of the current GPU can address. Returns false for memory about which CUDA gives no answer. Never throws.
  bool page_locked(HostRange range);

 private:
  struct Entry {
    std::uintptr_t end = 0;
    CUcontext context = nullptr;
    int pinnings = 0;
  };

  static bool unregister(std::uintptr_t begin, CUcontext by) noexcept;
  /// Tries the given context first, then all others. Takes milliseconds for each 64 MiB.
  bool unregister_by_any(std::uintptr_t begin, CUcontext first) noexcept;
  /// The context of this number, by age; nullptr: there are fewer.
  CUcontext context_at(std::size_t number) noexcept;

  std::mutex contexts_mutex_;
  std::vector<CUcontext> contexts_;
  std::mutex mutex_;                         // guards the following member
  std::map<std::uintptr_t, Entry> entries_;  // by first address; they do not overlap
};

/// Host memory that is page-locked for its lifetime, where that is possible.
class CudaHostMemory final : public HostMemory {
 public:
  /// @param context outlives this @throws std::bad_alloc
  CudaHostMemory(CUcontext context, std::size_t bytes);
  ~CudaHostMemory() override;

 private:
  HostRange range() const { return {data(), data() + bytes()}; }

  CUcontext context_;
  pid_t process_;
  bool locked_ = false;
};

class CudaHostPinning final : public HostPinning {
 public:
  explicit CudaHostPinning(std::vector<std::uintptr_t> keys) : keys_(std::move(keys)) {}
  ~CudaHostPinning() override { HostRegistry::instance().release(keys_); }

 private:
  std::vector<std::uintptr_t> keys_;
};

}  // namespace tessera::device::cuda
