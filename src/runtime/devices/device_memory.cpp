#include "runtime/devices/device_memory.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/host_share.hpp"
#include "core/log.hpp"

namespace tessera::runtime {
namespace {

// A plan that counts on a sixteenth more than there should be takes it from the part that is left to others.
constexpr std::size_t small_part = 16;

// A host device's memory is its setting: all of it is ours.
std::size_t share_of(const device::Device& device, std::size_t free_bytes, int sharers) {
  if (device.info().backend == "host") return free_bytes;
  return memory_to_take(device.info().memory_bytes, free_bytes, sharers);
}

}  // namespace

std::size_t steady_capacity(std::size_t before, std::size_t now) {
  const std::size_t difference = std::max(before, now) - std::min(before, now);
  return difference <= before / small_part ? before : now;
}

DeviceMemory::DeviceMemory(device::Device& device, const Config& config, int sharers)
    : device_(device), most_bytes_(config.device_memory_bytes), sharers_(sharers) {
  full_bytes_ = most_bytes_.value_or(share_of(device, device.info().memory_bytes, sharers));
  if (config.memory_mode == MemoryMode::grow) slab_ = device.reserve_addresses(full_bytes_);
  grows_ = slab_ != nullptr;
  if (config.verbose && config.memory_mode == MemoryMode::grow && !grows_)
    log_line(device.info().name + ": memory cannot be mapped as it is needed, it is taken whole");
  capacity_bytes_ = grows_ ? available() : most_bytes_.value_or(available());
  if (grows_) return;
  slab_ = device.reserve(capacity_bytes_);
  committed_bytes_ = full_bytes_ = capacity_bytes_;
}

std::size_t DeviceMemory::available() const {
  const std::size_t all_bytes = committed_bytes_ + device_.free_memory_bytes();
  if (most_bytes_ && *most_bytes_ <= all_bytes) return *most_bytes_;
  return std::min(share_of(device_, all_bytes, sharers_), full_bytes_);
}

std::size_t DeviceMemory::look() const {
  try {
    return steady_capacity(capacity_bytes_, available());
  } catch (const Error&) {  // the job will find out what the device still does
    return capacity_bytes_;
  }
}

std::size_t DeviceMemory::capacity_bytes() const {
  const LockGuard lock(mutex_);
  return capacity_bytes_;
}

std::size_t DeviceMemory::review() {
  const LockGuard lock(mutex_);
  if (grows_ && steady_capacity(full_bytes_, capacity_bytes_) != full_bytes_) capacity_bytes_ = look();
  return capacity_bytes_;
}

bool DeviceMemory::provide(std::size_t bytes, const UsedByOthers& used) {
  const LockGuard lock(mutex_);
  if (bytes <= committed_bytes_) return true;
  if (!grows_) return false;
  // Only downwards: what a device says is free it need not be able to give, and the plan that follows counts on what it
  // gave.
  capacity_bytes_ = std::min(capacity_bytes_, look());
  if (bytes > capacity_bytes_) return false;
  committed_bytes_ = device_.commit(bytes);
  if (committed_bytes_ >= bytes) return true;
  // Somebody else has taken it. The last of a device's memory is not for us alone either.
  capacity_bytes_ = std::min(look(), committed_bytes_);
  committed_bytes_ = device_.decommit(std::max(capacity_bytes_, used ? used() : 0));
  return false;
}

std::size_t DeviceMemory::committed_bytes() const {
  const LockGuard lock(mutex_);
  return committed_bytes_;
}

bool DeviceMemory::give_back(std::size_t bytes) {
  const LockGuard lock(mutex_);
  if (!grows_ || committed_bytes_ == 0) return false;
  const std::size_t before = committed_bytes_;
  committed_bytes_ = device_.decommit(before - std::min(bytes, before));
  return committed_bytes_ > 0 && committed_bytes_ < before;
}

}  // namespace tessera::runtime
