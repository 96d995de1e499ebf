// The memory that the runtime has of one device. Its slab is a range of addresses that covers all that may ever be
// taken; what a job needs is committed to it before the job begins, and given back when no job has come for a while. A
// device that cannot do that, or a setting, has it whole from the beginning.
//
// Plans count on `capacity_bytes`: the committed bytes and most of the free ones. While the free memory changes by
// little it stays, so that calls of one size are cut alike. The device is asked only where it matters: before more is
// committed, and as long as the capacity is clearly less than that of an empty device.
//
// Invariant: committed memory beyond the capacity is not used. Thread-safe; gives back only memory that no job uses.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "core/config.hpp"
#include "core/mutex.hpp"
#include "device/device.hpp"

namespace tessera::runtime {

/// The capacity to count on: the present one, unless it differs little from the one before.
std::size_t steady_capacity(std::size_t before, std::size_t now);

class DeviceMemory {
 public:
  /// Reserves the slab. @param sharers processes that take memory of the device, this one included
  /// @throws OutOfDeviceMemory
  DeviceMemory(device::Device& device, const Config& config, int sharers);

  std::byte* slab() const { return slab_; }
  /// The most bytes that may ever be committed.
  std::size_t slab_bytes() const { return full_bytes_; }
  /// Whether memory is committed as it is needed.
  bool grows() const { return grows_; }

  /// The bytes that a plan may count on.
  std::size_t capacity_bytes() const;
  /// The same, after a look at the device if there was less than an empty one has.
  std::size_t review();

  /// How many bytes of the slab, from its beginning, others use. A job that uses them later commits them first.
  using UsedByOthers = std::function<std::size_t()>;

  /// Makes the first `bytes` of the slab usable. @param used asked before anything is given back; empty: none are
  /// @return false if the device cannot give so much; capacity_bytes() is less then. @throws DeviceLost
  bool provide(std::size_t bytes, const UsedByOthers& used = {});
  std::size_t committed_bytes() const;

  /// Gives back up to `bytes` of what is committed. @return whether that was possible and more is left
  /// @pre no work that uses the memory is under way
  bool give_back(std::size_t bytes);

 private:
  std::size_t available() const TESSERA_REQUIRES(mutex_);
  /// The capacity after a look at the device.
  std::size_t look() const TESSERA_REQUIRES(mutex_);

  device::Device& device_;
  std::optional<std::size_t> most_bytes_;  ///< as the user wants it
  int sharers_;
  bool grows_ = false;
  std::byte* slab_ = nullptr;
  std::size_t full_bytes_ = 0;  ///< capacity of a device that nobody else uses; the size of the slab

  mutable Mutex mutex_;
  std::size_t capacity_bytes_ TESSERA_GUARDED_BY(mutex_) = 0;
  std::size_t committed_bytes_ TESSERA_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera::runtime
