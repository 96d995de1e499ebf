// Runs problems of Level 3 in a device's memory.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "calls/level3.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"

namespace tessera::test {

inline constexpr BackendParam with_reference{BackendParam::Kind::host, 1, false};

/// Runs problems in a device's memory, and copies the result and the inputs back.
class DeviceRunner {
 public:
  static constexpr index_t default_bytes = index_t{24} << 20;

  DeviceRunner(device::Device& device, kernels::TileOps& ops, index_t bytes = default_bytes)
      : device_(device), ops_(ops), slab_bytes_(bytes), slab_(device.reserve(static_cast<std::size_t>(bytes))) {}

  /// The operands lie one after the other from `offset` on. The fixture may be read when the event has completed.
  template <Scalar T>
  device::EventPtr submit(Level3Fixture<T>& fixture, int compute_stream, index_t& offset) {
    Level3 call = fixture.problem();
    const bool in_place = call.B == call.C;
    std::byte* const A = put(fixture.A(), offset);
    std::byte* const B = put(fixture.B(), offset);
    std::byte* const C = put(fixture.C(), offset);
    call.A = A;
    if (call.B != nullptr) call.B = in_place ? C : B;
    call.C = C;
    const device::StreamId compute{device::StreamKind::compute, compute_stream};
    device_.wait(compute, device_.record({device::StreamKind::up, 0}));
    ops_.run(compute_stream, call);
    device_.wait({device::StreamKind::down, 0}, device_.record(compute));
    get(fixture.A(), A);
    get(fixture.B(), B);
    get(fixture.C(), C);
    return device_.record({device::StreamKind::down, 0});
  }

  template <Scalar T>
  void run_and_check(const Level3Case& c, unsigned seed = 1) {
    Level3Fixture<T> fixture(c, seed);
    index_t offset = 0;
    ASSERT_EQ(wait_for(submit(fixture, 0, offset)), device::EventStatus::complete);
    ASSERT_TRUE(fixture.check());
  }

 private:
  template <class T>
  std::byte* put(std::vector<T>& values, index_t& offset) {
    const auto bytes = static_cast<index_t>(values.size() * sizeof(T));
    std::byte* const address = slab_ + offset;
    offset = (offset + bytes + 255) / 256 * 256;
    EXPECT_LE(offset, slab_bytes_);
    device_.copy_up({address, bytes}, {reinterpret_cast<std::byte*>(values.data()), bytes}, {bytes, 1});
    return address;
  }
  template <class T>
  void get(std::vector<T>& values, std::byte* address) {
    const auto bytes = static_cast<index_t>(values.size() * sizeof(T));
    device_.copy_down({reinterpret_cast<std::byte*>(values.data()), bytes}, {address, bytes}, {bytes, 1});
  }

  device::Device& device_;
  kernels::TileOps& ops_;
  index_t slab_bytes_;
  std::byte* slab_;
};

}  // namespace tessera::test
