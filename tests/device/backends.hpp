// Opens the accelerators of a parameterised suite: host devices, or CUDA GPUs through the plugin. Without (enough) GPUs
// the test is skipped with the reason. With TESSERA_TEST_REQUIRE_CUDA=1 in the environment it fails instead, so that a
// machine with GPUs cannot pass by skipping.
//
// Use:  class MySuite : public ::testing::TestWithParam<test::BackendParam> {};
//       TEST_P(MySuite, Name) { TESSERA_OPEN_DEVICES(opened, GetParam()); Device& device = opened.device(0); ... }
//       TESSERA_INSTANTIATE_BACKENDS(MySuite);
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/config.hpp"
#include "core/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/host/host_backend.hpp"
#include "kernels/plugin_loader.hpp"

namespace tessera::test {

struct BackendParam {
  enum class Kind { host, cuda };
  Kind kind = Kind::host;
  int devices = 1;
  bool cpu_blas = true;  ///< host devices: compute with the CPU BLAS of the machine (else with the reference)
  int copy_threads = 0;  ///< GPUs: stage pageable memory with so many threads (0: leave it to CUDA)

  std::string name() const {
    return std::string(kind == Kind::host ? "host" : "cuda") + (cpu_blas ? "_" : "_reference_") +
           (copy_threads > 0 ? "staged_" : "") + std::to_string(devices);
  }
  friend std::ostream& operator<<(std::ostream& out, const BackendParam& param) { return out << param.name(); }
};

inline BackendParam host_param(int devices) { return {BackendParam::Kind::host, devices, true}; }
inline BackendParam cuda_param(int devices, int copy_threads = 0) {
  return {BackendParam::Kind::cuda, devices, true, copy_threads};
}

/// Devices that stay open for the lifetime of the object.
struct OpenedDevices {
  std::unique_ptr<kernels::Backend> backend;
  std::vector<kernels::Accelerator> accelerators;
  std::string missing;  ///< the reason why there are none

  device::Device& device(std::size_t index) { return *accelerators.at(index).device; }
  kernels::TileOps& ops(std::size_t index) { return *accelerators.at(index).ops; }
  std::size_t size() const { return accelerators.size(); }
};

/// The CPU BLAS of the machine. The search runs once, because its walk through folders would take longer than many
/// tests.
inline std::shared_ptr<const kernels::CpuBlas> cpu_blas() {
  static const std::shared_ptr<const kernels::CpuBlas> blas = kernels::CpuBlas::open("");
  return blas;
}

/// Host devices with the given settings: one for all, or one per device.
inline OpenedDevices open_host_devices(int count, std::vector<HostDeviceSettings> settings = {HostDeviceSettings{}},
                                       std::shared_ptr<const kernels::CpuBlas> blas = nullptr,
                                       const device::DeviceProfile& profile = device::host_profile()) {
  Config config;
  config.devices = DeviceChoice::host;
  config.host_devices = count;
  config.host_device = std::move(settings);
  OpenedDevices opened;
  opened.backend = kernels::make_host_backend(config, count, std::move(blas), profile);
  std::vector<int> ordinals(static_cast<std::size_t>(count));
  std::iota(ordinals.begin(), ordinals.end(), 0);
  opened.accelerators = opened.backend->open(ordinals, 0).accelerators;
  return opened;
}

/// TESSERA_CUDA_PLUGIN, or libtessera_cuda.so in ../lib from the test binary.
inline std::string cuda_plugin_path() {
  if (const char* path = std::getenv("TESSERA_CUDA_PLUGIN")) return path;
  std::error_code ignored;
  const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (binary.parent_path().parent_path() / "lib" / "libtessera_cuda.so").string();
}

/// Opens the first `count` GPUs; on failure `missing` gives the reason.
inline OpenedDevices open_cuda_devices(int count, int copy_threads = 0) {
  OpenedDevices opened;
  const std::string path = cuda_plugin_path();
  if (!std::filesystem::exists(path)) {
    opened.missing = "no CUDA plugin at " + path;
    return opened;
  }
  try {
    opened.backend = kernels::open_plugin(path);
    const std::size_t found = opened.backend->devices().size();
    if (found < static_cast<std::size_t>(count)) {
      opened.missing = std::to_string(count) + " CUDA device(s) needed, " + std::to_string(found) + " found";
      return opened;
    }
    std::vector<int> ordinals(static_cast<std::size_t>(count));
    std::iota(ordinals.begin(), ordinals.end(), 0);
    kernels::Opened found_open = opened.backend->open(ordinals, copy_threads);
    if (!found_open.refused.empty()) throw NotAvailable(found_open.refused.front().reason);
    opened.accelerators = std::move(found_open.accelerators);
    for (auto& accelerator : opened.accelerators) accelerator.device->attach_thread();
  } catch (const NotAvailable& error) {
    opened.missing = std::string("no CUDA device: ") + error.what();
  }
  return opened;
}

inline OpenedDevices open_devices(const BackendParam& param) {
  if (param.kind == BackendParam::Kind::cuda) return open_cuda_devices(param.devices, param.copy_threads);
  return open_host_devices(param.devices, {HostDeviceSettings{}}, param.cpu_blas ? cpu_blas() : nullptr);
}

inline bool cuda_required() {
  const char* value = std::getenv("TESSERA_TEST_REQUIRE_CUDA");
  return value != nullptr && std::string(value) == "1";
}

/// Waits until the event has ended. A minute without an end counts as a hang.
inline device::EventStatus wait_for(const device::EventPtr& event) {
  const double give_up = device::now_seconds() + 60;
  for (;;) {
    const device::EventStatus status = event->status();
    if (status != device::EventStatus::pending) return status;
    if (device::now_seconds() > give_up) {
      ADD_FAILURE() << "an event did not end within a minute";
      return status;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

/// Waits for all work submitted to the stream so far.
inline device::EventStatus finish(device::Device& device, device::StreamId stream) {
  return wait_for(device.record(stream));
}

}  // namespace tessera::test

#define TESSERA_OPEN_DEVICES(variable, param)                                     \
  ::tessera::test::OpenedDevices variable = ::tessera::test::open_devices(param); \
  if (!variable.missing.empty()) {                                                \
    if (::tessera::test::cuda_required()) FAIL() << variable.missing;             \
    GTEST_SKIP() << variable.missing;                                             \
  }                                                                               \
  static_assert(true, "")

/// The instances of every suite over both backends: three numbers of host devices, one GPU, two GPUs.
#define TESSERA_INSTANTIATE_BACKENDS(suite)                                                                      \
  INSTANTIATE_TEST_SUITE_P(Host, suite,                                                                          \
                           ::testing::Values(::tessera::test::host_param(1), ::tessera::test::host_param(2),     \
                                             ::tessera::test::host_param(3)),                                    \
                           [](const auto& info) { return info.param.name(); });                                  \
  INSTANTIATE_TEST_SUITE_P(Cuda, suite,                                                                          \
                           ::testing::Values(::tessera::test::cuda_param(1), ::tessera::test::cuda_param(1, 3)), \
                           [](const auto& info) { return info.param.name(); });                                  \
  INSTANTIATE_TEST_SUITE_P(MultiGpu, suite,                                                                      \
                           ::testing::Values(::tessera::test::cuda_param(2), ::tessera::test::cuda_param(2, 3)), \
                           [](const auto& info) { return info.param.name(); })
