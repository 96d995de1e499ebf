// Machines on which factorizations run: host devices and GPUs, several of them, with plenty of memory and with as little
// as allowed, in tiles of one size.
#pragma once

#include <gtest/gtest.h>

#include <complex>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/config.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/runtime.hpp"
#include "tests/device/backends.hpp"

namespace tessera::test {

struct TileMachine {
  static constexpr index_t tile = 8;

  const char* name;
  bool cuda = false;
  int devices = 1;
  index_t tiles = 4096;  ///< of memory, in double complex precision
  bool unequal = false;
  bool peers = true;
  int copy_threads = 0;
  friend std::ostream& operator<<(std::ostream& out, const TileMachine& machine) { return out << machine.name; }
};

class OnTileMachine : public ::testing::TestWithParam<TileMachine> {
 protected:
  void SetUp() override {
    const TileMachine& machine = GetParam();
    const auto memory =
        static_cast<std::size_t>(machine.tiles * TileMachine::tile * TileMachine::tile) * sizeof(std::complex<double>);
    if (machine.cuda) {
      opened_ = open_cuda_devices(machine.devices, machine.copy_threads);
      if (!opened_.missing.empty()) {
        if (cuda_required()) FAIL() << opened_.missing;
        GTEST_SKIP() << opened_.missing;
      }
    } else {
      std::vector<HostDeviceSettings> settings(static_cast<std::size_t>(machine.devices));
      for (std::size_t d = 0; d < settings.size(); ++d) {
        settings[d].memory_bytes = memory;
        settings[d].peers = machine.peers;
        if (!machine.unequal) continue;
        settings[d].flops_per_s = d == 0 ? 2e7 : 2e8;
        settings[d].link_bytes_per_s = d % 2 == 0 ? 1e9 : 0;
      }
      opened_ = open_host_devices(machine.devices, settings, cpu_blas());
    }
    Config config;
    config.device_memory_bytes = memory;
    runtime_ = std::make_unique<runtime::Runtime>(std::move(opened_.accelerators), config, &kernels::reference_level3);
  }

  OpenedDevices opened_;
  std::unique_ptr<runtime::Runtime> runtime_;
};

inline std::string name_of_machine(const ::testing::TestParamInfo<TileMachine>& info) { return info.param.name; }

}  // namespace tessera::test

#define TESSERA_ON_TILE_MACHINES(suite)                                                                             \
  INSTANTIATE_TEST_SUITE_P(                                                                                         \
      Host, suite,                                                                                                  \
      ::testing::Values(                                                                                            \
          test::TileMachine{.name = "host_1"}, test::TileMachine{.name = "host_1_fewest", .tiles = 12},             \
          test::TileMachine{.name = "host_1_some", .tiles = 40}, test::TileMachine{.name = "host_2", .devices = 2}, \
          test::TileMachine{.name = "host_2_fewest", .devices = 2, .tiles = 12},                                    \
          test::TileMachine{.name = "host_3_unequal", .devices = 3, .unequal = true},                               \
          test::TileMachine{.name = "host_3_without_peers", .devices = 3, .peers = false},                          \
          test::TileMachine{.name = "host_3_some_without_peers", .devices = 3, .tiles = 30, .peers = false},        \
          test::TileMachine{.name = "host_5", .devices = 5},                                                        \
          test::TileMachine{.name = "host_5_fewest", .devices = 5, .tiles = 12}),                                   \
      test::name_of_machine);                                                                                       \
  INSTANTIATE_TEST_SUITE_P(                                                                                         \
      Cuda, suite,                                                                                                  \
      ::testing::Values(test::TileMachine{.name = "cuda_1", .cuda = true},                                          \
                        test::TileMachine{.name = "cuda_1_staged", .cuda = true, .copy_threads = 3},                \
                        test::TileMachine{.name = "cuda_1_fewest", .cuda = true, .tiles = 12}),                     \
      test::name_of_machine);                                                                                       \
  INSTANTIATE_TEST_SUITE_P(                                                                                         \
      MultiGpu, suite,                                                                                              \
      ::testing::Values(test::TileMachine{.name = "cuda_2", .cuda = true, .devices = 2},                            \
                        test::TileMachine{.name = "cuda_2_fewest", .cuda = true, .devices = 2, .tiles = 12}),       \
      test::name_of_machine)
