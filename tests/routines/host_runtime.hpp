// A runtime over host devices, and a caller who has the CPU compute what devices do not take, as Context does.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/config.hpp"
#include "core/error.hpp"
#include "device/host/host_device.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/level3.hpp"
#include "runtime/lazy_matrices.hpp"
#include "runtime/runtime.hpp"
#include "tests/device/backends.hpp"

namespace tessera::test {

struct HostRuntime {
  /// @param settings of each device
  explicit HostRuntime(const std::vector<HostDeviceSettings>& settings, const Config& config = {},
                       std::chrono::nanoseconds idle_patience = std::chrono::seconds(5)) {
    OpenedDevices opened = open_host_devices(static_cast<int>(settings.size()), settings, cpu_blas());
    for (auto& accelerator : opened.accelerators)
      devices.push_back(dynamic_cast<device::HostDevice*>(accelerator.device.get()));
    runtime = std::make_unique<runtime::Runtime>(
        std::move(opened.accelerators), config,
        [this](const Level3& product) {
          ++host_products;
          kernels::reference_level3(product);
        },
        1, idle_patience);
  }

  /// Of the devices with most memory.
  runtime::Machine machine() const { return runtime->machines(ScalarType::d).front(); }

  /// @return nothing if no device was left, or none had the memory: the reference has computed the call
  std::optional<runtime::JobStatistics> run_or_compute(const Level3& call, index_t tile,
                                                       const runtime::CpuHelp& cpu = {}) {
    try {
      return routines::run(*runtime, call, tile, cpu);
    } catch (const NoDeviceLeft&) {       // C is untouched
    } catch (const OutOfDeviceMemory&) {  // likewise
    }
    const runtime::HostUse on_host(runtime->lazy_matrices(), routines::touched_by(call));
    kernels::reference_level3(call);
    return std::nullopt;
  }

  std::vector<device::HostDevice*> devices;  ///< the runtime's
  std::unique_ptr<runtime::Runtime> runtime;
  std::atomic<int> host_products = 0;  ///< that the CPU computed for it
};

}  // namespace tessera::test
