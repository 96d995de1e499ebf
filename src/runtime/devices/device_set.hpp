// The devices of a runtime that still work, and the memory that it has of each. A device that fails for good is left
// out from then on, and told of once.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.hpp"
#include "kernels/backend.hpp"
#include "runtime/devices/crew.hpp"
#include "runtime/devices/device_memory.hpp"
#include "runtime/devices/machine.hpp"

namespace tessera::runtime {

/// Thread-safe, except for functions that change memory: only the holder of the turn calls these.
class DeviceSet {
 public:
  /// Reserves the slabs of all devices, side by side, since a GPU's driver takes some time for most of its memory. A
  /// device that has none is left out.
  /// @param crew of these devices; both stay @param sharers see DeviceMemory
  /// @throws OutOfDeviceMemory if no device has any
  /// @param on_loss called once for each device that is lost from then on; must not throw
  DeviceSet(std::span<const kernels::Accelerator> accelerators, Crew& crew, const Config& config, int sharers,
            std::function<void(std::size_t)> on_loss = {});

  std::size_t size() const { return accelerators_.size(); }
  const kernels::Accelerator& accelerator(std::size_t d) const { return accelerators_[d]; }
  /// By device.
  std::vector<std::string> names() const;
  /// By device: whether it works.
  std::vector<bool> usable() const { return crew_.usable(); }

  /// Of a device that works, or has memory left.
  DeviceMemory& memory(std::size_t d) { return *memories_[d]; }
  const DeviceMemory& memory(std::size_t d) const { return *memories_[d]; }
  bool has_memory(std::size_t d) const { return memories_[d].has_value(); }

  /// The bytes that plans count on, by device.
  std::vector<DeviceCapacity> capacities() const;
  /// Asks the devices how much of their memory is free. Not while the process ends.
  void review() const;
  /// Commits memory of a device. @param used see DeviceMemory
  /// @return false if it cannot give so much, or turns out to be lost
  bool provide_to(std::size_t d, std::size_t bytes, const DeviceMemory::UsedByOthers& used = {});
  std::size_t committed_bytes() const;
  /// Some of what is committed can be given back.
  bool can_give_back() const;

  /// The device is called no more. Results stay right, so that nobody would learn otherwise why a GPU idles from now
  /// on.
  void lose(std::size_t d, std::string_view reason) noexcept;

 private:
  const std::span<const kernels::Accelerator> accelerators_;
  Crew& crew_;
  const std::function<void(std::size_t)> on_loss_;
  const bool tells_of_host_devices_;  ///< that are lost: they are told to fail
  // By device; nothing: it could not have any.
  mutable std::vector<std::optional<DeviceMemory>> memories_;
};

}  // namespace tessera::runtime
