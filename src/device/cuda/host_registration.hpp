// Host memory that the plugin has page-locked, for all of the process.
//
// Invariants: a page is registered by us at most once, and is unregistered when the last pinning that covers it is
// gone, so that two contexts can compute on one matrix at a time; what the application (or another library) has
// registered is never touched. A registration never outlives the job that asked for it, but of memory of our own
// (CudaHostMemory), which is locked for as long as it is there.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/cuda/cuda_context.hpp"
#include "device/device.hpp"
#include "device/host_memory.hpp"
#include "device/page_ranges.hpp"

namespace tessera::device::cuda {

class HostRegistry {
 public:
  /// The only one; never destroyed.
  static HostRegistry& instance();

  /// A context that can unregister what another one has registered, should that one break: for CUDA, memory stays where
  /// it was until somebody has. Contexts are never released.
  void add_context(CUcontext context);

  /// Page-locks what is not locked yet, each merged range in one call: a copy cannot run over the edge between two
  /// registrations. Memory that cannot be locked stays pageable.
  /// @return keys for release(); empty if nothing of these ranges is held
  std::vector<std::uintptr_t> acquire(CUcontext context, bool read_only_supported, std::span<const HostRange> ranges);
  void release(std::span<const std::uintptr_t> keys) noexcept;

  /// CUDA knows nothing of the memory there. Never throws.
  static bool is_pageable(const std::byte* address);

  /// The memory there is the host's, page-locked, and processors read it through their caches: neither managed nor write-combined.
  /// Never throws.
  static bool is_cached(const std::byte* address);

  /// Memory of our own, which is no entry: nobody else's operand lies in it. @return false: it stays pageable
  bool lock_own(CUcontext context, HostRange range);
  /// @return false: CUDA did not let go of it
  bool unlock_own(CUcontext context, HostRange range) noexcept;

  /// Some of the range is page-locked by us, for whichever job. Thread-safe.
  bool overlaps(HostRange range);

  /// All of the range is one page-locked allocation or registration, ours or the application's, which kernels of the
  /// current GPU can address. Cannot be told for some memory: then false. Never throws.
  bool page_locked(HostRange range);

 private:
  struct Entry {
    std::uintptr_t end = 0;
    CUcontext context = nullptr;
    int pinnings = 0;
  };

  bool unregister(std::uintptr_t begin, CUcontext by) const noexcept;
  /// By whichever context can.
  bool unregister_by_any(std::uintptr_t begin, CUcontext first) const noexcept;

  std::mutex mutex_;  // guards what follows
  std::vector<CUcontext> contexts_;
  std::map<std::uintptr_t, Entry> entries_;  // by first address; they do not overlap
};

/// Page-locked, where that is possible, for as long as it lives.
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
