// A device after a failed call of CUDA: it throws WorkRefused and continues, or throws DeviceLost.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>

#include "core/error.hpp"
#include "tests/cuda_faults/standin_machine.hpp"
#include "tests/device/backends.hpp"

namespace tessera {
namespace devices_test {

using cuda_standin::Fault;
using device::Block;
using device::Device;
using device::EventStatus;
using device::Extent;
using device::StreamId;
using device::StreamKind;

constexpr StreamId up{StreamKind::up};
constexpr StreamId down{StreamKind::down};

using Bytes = std::vector<std::byte>;

Bytes numbered(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

/// A device of the stand-in with a slab.
struct Opened {
  explicit Opened(int gpus, int copy_threads = 0, std::size_t slab_bytes = std::size_t{64} << 20) {
    cuda_standin::start({.gpus = gpus});
    devices = test::open_standin_gpus(gpus, copy_threads);
    devices.device(0).attach_thread();
    slab = devices.device(0).reserve(slab_bytes);
  }
  Device& device() { return devices.device(0); }

  test::StandinGpus devices;
  std::byte* slab = nullptr;
};

/// Host memory of a copy, which must live until recover() if the copy has failed.
struct Buffers {
  explicit Buffers(Extent extent) : sent(numbered(static_cast<std::size_t>(extent.column_bytes * extent.columns))) {}
  Bytes sent;
  Bytes received = Bytes(sent.size());
};

/// Copies up and down again. The moved bytes are right, and no other bytes are written.
::testing::AssertionResult comes_back(Device& device, std::byte* slab, Extent extent, Buffers& buffers) {
  auto& [sent, received] = buffers;
  std::fill(received.begin(), received.end(), std::byte{0});
  device.copy_up({slab, extent.column_bytes}, {sent.data(), extent.column_bytes}, extent);
  if (test::finish(device, up) != EventStatus::complete) return ::testing::AssertionFailure() << "the way up failed";
  device.copy_down({received.data(), extent.column_bytes}, {slab, extent.column_bytes}, extent);
  if (test::finish(device, down) != EventStatus::complete) {
    return ::testing::AssertionFailure() << "the way down failed";
  }
  for (index_t j = 0; j < extent.columns; ++j) {
    for (index_t i = 0; i < extent.column_bytes; ++i) {
      const bool moved = extent.first_byte(j) <= i && i < extent.last_byte(j);
      const auto at = static_cast<std::size_t>(i + j * extent.column_bytes);
      if (received[at] != (moved ? sent[at] : std::byte{0})) {
        return ::testing::AssertionFailure() << "byte " << i << " of column " << j;
      }
    }
  }
  return ::testing::AssertionSuccess();
}

void expect_good_manners() {
  for (const std::string& offence : cuda_standin::offences()) ADD_FAILURE() << offence;
}

/// Each call that copies `extent` up and down fails: by itself, and then with the context.
void fail_each_call(int copy_threads, Extent extent, std::size_t fewest_faults) {
  std::map<std::string, std::int64_t> calls;
  Buffers buffers(extent);
  {
    Opened opened(1, copy_threads);
    ASSERT_TRUE(comes_back(opened.device(), opened.slab, extent, buffers));
    cuda_standin::count_calls();
    ASSERT_TRUE(comes_back(opened.device(), opened.slab, extent, buffers));
    calls = cuda_standin::calls();
  }
  std::size_t happened = 0;
  for (const char* const name : {"cudaMemcpyAsync", "cudaMemcpy2DAsync", "cudaLaunchKernel", "cudaEventRecord",
                                 "cudaStreamWaitEvent", "cuStreamBatchMemOp_v2"}) {
    const std::int64_t count = calls[name];
    for (const std::int64_t number : std::set<std::int64_t>{0, 1, count / 2, count - 1}) {
      if (number < 0 || number >= count) continue;
      for (const bool stays : {false, true}) {
        const Fault fault{name, number, stays ? cudaErrorIllegalAddress : cudaErrorMemoryAllocation, stays};
        std::ostringstream what;
        what << fault;
        SCOPED_TRACE(what.str());
        Opened opened(1, copy_threads);
        ASSERT_TRUE(comes_back(opened.device(), opened.slab, extent, buffers));
        cuda_standin::inject(fault);
        try {
          EXPECT_FALSE(comes_back(opened.device(), opened.slab, extent, buffers));
        } catch (const WorkRefused&) {
          EXPECT_FALSE(stays);
        } catch (const DeviceLost&) {
          EXPECT_TRUE(stays);
        }
        EXPECT_TRUE(cuda_standin::has_happened());
        ++happened;
        EXPECT_EQ(opened.device().recover(), !stays);
        if (stays) {
          EXPECT_THROW(opened.device().record(up), DeviceLost);
        } else {
          EXPECT_TRUE(comes_back(opened.device(), opened.slab, extent, buffers));
        }
        expect_good_manners();
      }
    }
  }
  EXPECT_GE(happened, fewest_faults);
}

constexpr index_t element = sizeof(double);

TEST(DeviceWithFaults, RefusesACopyAndGoesOn) { fail_each_call(0, {1000, 7}, 8); }

TEST(DeviceWithFaults, RefusesATriangleOfPageableMemoryAndGoesOn) {
  fail_each_call(0, {20 * element, 20, Part::upper, element}, 12);
}

// The engine and a kernel copy it together, on two streams.
TEST(DeviceWithFaults, RefusesALargeTriangleAndGoesOn) {
  constexpr index_t order = 2600;
  const Extent extent{order * element, order, Part::lower, element};
  const auto bytes = static_cast<std::size_t>(extent.column_bytes * order);
  std::map<std::string, std::int64_t> calls;
  std::size_t happened = 0;
  const auto run = [&](const Fault* fault) {
    Opened opened(1, 0, bytes);
    void* host = nullptr;  // the program's own
    ASSERT_EQ(cudaHostAlloc(&host, bytes, cudaHostAllocDefault), cudaSuccess);
    const Block block{static_cast<std::byte*>(host), extent.column_bytes};
    const auto copy = [&] {
      opened.device().copy_up({opened.slab, extent.column_bytes}, block, extent);
      return test::finish(opened.device(), up);
    };
    fault != nullptr ? cuda_standin::inject(*fault) : cuda_standin::count_calls();
    bool failed = false;
    bool lost = false;
    try {
      failed = copy() == EventStatus::failed;
    } catch (const WorkRefused&) {
      failed = true;
    } catch (const DeviceLost&) {
      failed = lost = true;
    }
    calls = cuda_standin::calls();
    EXPECT_EQ(failed, fault != nullptr);
    if (fault != nullptr) {
      EXPECT_TRUE(cuda_standin::has_happened());
      EXPECT_EQ(opened.device().recover(), !fault->stays);
      EXPECT_TRUE(fault->stays || !lost);
      EXPECT_TRUE(fault->stays || copy() == EventStatus::complete);
      ++happened;
    }
    opened.devices.accelerators.clear();
    cudaFreeHost(host);
    cudaGetLastError();
    expect_good_manners();
  };
  run(nullptr);
  const auto whole = calls;
  for (const char* const name : {"cudaLaunchKernel", "cudaMemcpy2DAsync", "cudaEventRecord", "cudaStreamWaitEvent"}) {
    ASSERT_TRUE(whole.contains(name)) << name;
    for (const std::int64_t number : {std::int64_t{0}, whole.at(name) - 1}) {
      for (const bool stays : {false, true}) {
        const Fault fault{name, number, stays ? cudaErrorLaunchFailure : cudaErrorMemoryAllocation, stays};
        std::ostringstream what;
        what << fault;
        SCOPED_TRACE(what.str());
        run(&fault);
      }
    }
  }
  EXPECT_EQ(happened, 16U);
}

TEST(DeviceWithFaults, RefusesAStagedCopyAndGoesOn) {
  fail_each_call(2, {index_t{1} << 20, 5}, 18);  // more than one piece
}

TEST(DeviceWithFaults, RefusesAStagedTriangleAndGoesOn) {
  fail_each_call(2, {300 * element, 300, Part::lower, element}, 16);
}

// The copy down waits for the copy up, and both need threads.
TEST(StagedCopies, GoOnWithOneThread) {
  Opened opened(1, 1);
  Device& device = opened.device();
  constexpr Extent small{100, 10}, large{index_t{1} << 20, 24};
  Buffers first(small);  // under way down, so that this direction is served first if both need a thread
  device.copy_down({first.received.data(), small.column_bytes}, {opened.slab, small.column_bytes}, small);
  ASSERT_EQ(test::finish(device, down), EventStatus::complete);
  for (int turn = 0; turn < 5; ++turn) {
    Buffers buffers(large);
    device.copy_up({opened.slab, large.column_bytes}, {buffers.sent.data(), large.column_bytes}, large);
    device.wait(down, device.record(up));
    device.copy_down({buffers.received.data(), large.column_bytes}, {opened.slab, large.column_bytes}, large);
    ASSERT_EQ(test::finish(device, down), EventStatus::complete);
    EXPECT_TRUE(buffers.received == buffers.sent);
  }
  expect_good_manners();
}

// Processors read write-combined memory past their caches, at a fraction of what a copy engine does.
TEST(StagedCopies, AreNotThoseOfWriteCombinedMemory) {
  constexpr Extent scattered{512, 2100};
  constexpr index_t pitch = 8 * 512;
  for (const unsigned flags : {cudaHostAllocDefault, cudaHostAllocWriteCombined}) {
    Opened opened(1, 2);
    Device& device = opened.device();
    void* memory = nullptr;
    ASSERT_EQ(cudaHostAlloc(&memory, static_cast<std::size_t>(pitch * scattered.columns), flags), cudaSuccess);
    auto* const host = static_cast<std::byte*>(memory);
    const Bytes numbers = numbered(static_cast<std::size_t>(pitch * scattered.columns));
    std::copy(numbers.begin(), numbers.end(), host);
    cuda_standin::count_calls();
    device.copy_up({opened.slab, scattered.column_bytes}, {host, pitch}, scattered);
    Bytes back(static_cast<std::size_t>(scattered.column_bytes * scattered.columns));
    ASSERT_EQ(test::finish(device, up), EventStatus::complete);
    EXPECT_EQ(cuda_standin::calls()["cuStreamBatchMemOp_v2"] > 0, flags == cudaHostAllocDefault);
    device.copy_down({back.data(), scattered.column_bytes}, {opened.slab, scattered.column_bytes}, scattered);
    ASSERT_EQ(test::finish(device, down), EventStatus::complete);
    for (index_t j = 0; j < scattered.columns; ++j)
      ASSERT_TRUE(std::equal(host + j * pitch, host + j * pitch + 512, back.data() + j * 512)) << j;
    ASSERT_EQ(cudaFreeHost(memory), cudaSuccess);
    expect_good_manners();
  }
}

// The stream of the trial wait still uses the memory when the ring frees it.
TEST(DeviceWithFaults, CopiesWithoutARingThatCannotBeTried) {
  for (const char* const name : {"cuStreamBatchMemOp_v2", "cudaHostAlloc"}) {
    Opened opened(1, 2);
    cuda_standin::inject({name, 0, cudaErrorMemoryAllocation});
    Buffers buffers({100, 10});
    EXPECT_TRUE(comes_back(opened.device(), opened.slab, {100, 10}, buffers));
    EXPECT_TRUE(cuda_standin::has_happened()) << name;
    expect_good_manners();
  }
}

// A broken context gives no memory, which must not be taken for a lack of memory.
TEST(DeviceWithFaults, IsLostWhereABrokenContextGivesNoMemory) {
  for (const char* const name : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    for (const bool stays : {false, true}) {
      cuda_standin::start({});
      auto opened = test::open_standin_gpus(1, 0);
      ASSERT_NE(opened.device(0).reserve_addresses(std::size_t{8} << 20), nullptr);
      cuda_standin::inject({name, 0, stays ? cudaErrorECCUncorrectable : cudaErrorNotSupported, stays});
      if (stays) {
        EXPECT_THROW(opened.device(0).commit(1), DeviceLost) << name;
        EXPECT_FALSE(opened.device(0).recover());
      } else {
        EXPECT_EQ(opened.device(0).commit(1), 0U) << name;
        EXPECT_GT(opened.device(0).commit(1), 0U) << name;
      }
    }
  }
}

// The copy engine continues for a while after the error is known.
TEST(DeviceWithFaults, TouchesNoHostMemoryAfterRecovery) {
  constexpr std::chrono::milliseconds late{5};
  for (int attempt = 0; attempt < 20; ++attempt) {
    Opened opened(1);
    Bytes tile(1000, std::byte{1});
    const Bytes restored(tile.size(), std::byte{2});
    cuda_standin::inject({"copy down", 0, cudaErrorECCUncorrectable, true, late});
    opened.device().copy_down({tile.data(), 1000}, {opened.slab, 1000}, {1000, 1});
    while (!cuda_standin::has_happened()) std::this_thread::yield();
    EXPECT_FALSE(opened.device().recover());
    tile = restored;
    while (cuda_standin::late_half_s() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // On a machine too busy for the engine's thread this attempt proves nothing.
    if (cuda_standin::late_half_s() > 2e-3 * static_cast<double>(late.count())) continue;
    EXPECT_EQ(tile, restored);
    return;
  }
}

// Otherwise a parent that writes to the memory would get other pages (copy on write) than those that the GPU knows.
TEST(DeviceWithFaults, AChildHasNoneOfTheMemoryThatStaysLocked) {
  Opened opened(1);
  const auto memory = opened.device().host_memory(std::size_t{1} << 20);
  EXPECT_TRUE(cuda_standin::held().contains("registrations"));
  const auto is_mapped = [&] {
    unsigned char resident = 0;
    return mincore(memory->data(), 4096, &resident) == 0;
  };
  EXPECT_TRUE(is_mapped());
  const pid_t child = fork();
  if (child == 0) _exit(is_mapped() ? 1 : 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// CUDA treats memory as page-locked, at its old place, until it is unregistered: also in a broken context.
TEST(DeviceWithFaults, LeavesNoMemoryRegisteredWhenItIsLost) {
  Opened opened(2);
  Bytes matrix(std::size_t{4} << 20);
  const device::HostRange range{matrix.data(), matrix.data() + matrix.size()};
  auto pinning = opened.device().pin_host({&range, 1});
  ASSERT_NE(pinning, nullptr);
  cuda_standin::inject({"cudaEventRecord", 0, cudaErrorIllegalAddress, true});
  EXPECT_THROW(opened.device().record(up), DeviceLost);
  EXPECT_FALSE(opened.device().recover());
  EXPECT_TRUE(cuda_standin::held().contains("registrations"));
  pinning.reset();
  EXPECT_FALSE(cuda_standin::held().contains("registrations"));
}

}  // namespace devices_test
}  // namespace tessera
