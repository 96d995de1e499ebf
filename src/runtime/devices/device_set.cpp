#include "runtime/devices/device_set.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <string>

#include "core/error.hpp"
#include "core/error_text.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/side_by_side.hpp"

namespace tessera::runtime {

namespace {

/// "cuda:1"
std::string name_of(const device::Device& device) {
  return device.info().backend + ":" + std::to_string(device.info().ordinal);
}

}  // namespace

DeviceSet::DeviceSet(std::span<const kernels::Accelerator> accelerators, Crew& crew, const Config& config, int sharers,
                     std::function<void(std::size_t)> on_loss)
    : accelerators_(accelerators),
      crew_(crew),
      on_loss_(std::move(on_loss)),
      tells_of_host_devices_(config.verbose),
      memories_(accelerators.size()) {
  std::vector<std::exception_ptr> failures(memories_.size());
  side_by_side(memories_.size(), [&](std::size_t d) {
    try {
      memories_[d].emplace(*accelerators_[d].device, config, sharers);
    } catch (...) {
      failures[d] = std::current_exception();
    }
  });
  if (std::none_of(memories_.begin(), memories_.end(), [](const auto& memory) { return memory.has_value(); }))
    std::rethrow_exception(failures.front());
  for (std::size_t d = 0; d < memories_.size(); ++d) {
    if (memories_[d]) continue;
    static_cast<void>(crew_.lose(d));
    log_line_once(name_of(*accelerators_[d].device), "is not used: " + text_of(failures[d]));
  }
}

std::vector<std::string> DeviceSet::names() const {
  std::vector<std::string> names;
  for (const kernels::Accelerator& accelerator : accelerators_) names.push_back(name_of(*accelerator.device));
  return names;
}

std::vector<DeviceCapacity> DeviceSet::capacities() const {
  const std::vector<bool> usable = this->usable();
  std::vector<DeviceCapacity> capacities(usable.size());
  for (std::size_t d = 0; d < usable.size(); ++d)
    capacities[d] = {usable[d] ? memories_[d]->capacity_bytes() : 0, &accelerators_[d].device->info()};
  return capacities;
}

void DeviceSet::review() const {
  const process::Pass driving(process::Work::driving);
  if (!driving) return;
  const std::vector<bool> usable = this->usable();
  for (std::size_t d = 0; d < usable.size(); ++d) {
    if (usable[d]) static_cast<void>(memories_[d]->review());
  }
}

bool DeviceSet::provide_to(std::size_t d, std::size_t bytes, const DeviceMemory::UsedByOthers& used) {
  try {
    return memories_[d]->provide(bytes, used);
  } catch (const DeviceLost& error) {
    lose(d, error.what());
    return false;
  }
}

std::size_t DeviceSet::committed_bytes() const {
  std::size_t sum = 0;
  for (const auto& memory : memories_) sum += memory ? memory->committed_bytes() : 0;
  return sum;
}

bool DeviceSet::can_give_back() const {
  return std::any_of(memories_.begin(), memories_.end(),
                     [](const auto& memory) { return memory && memory->grows() && memory->committed_bytes() > 0; });
}

void DeviceSet::lose(std::size_t d, std::string_view reason) noexcept {
  if (!crew_.lose(d)) return;
  if (on_loss_) on_loss_(d);
  if (process::ending()) return;
  const device::Device& device = *accelerators_[d].device;
  if (device.info().backend == "host" && !tells_of_host_devices_) return;
  try {
    std::string text = name_of(device) + " is lost, calls do without it: " + std::string(reason);
    // An event only says that something has failed.
    const std::string diagnosis = device.diagnosis();
    if (!diagnosis.empty() && reason.find(diagnosis) == std::string_view::npos) text += ": " + diagnosis;
    log_line(text);
  } catch (const std::bad_alloc&) {  // untold
  }
}

}  // namespace tessera::runtime
