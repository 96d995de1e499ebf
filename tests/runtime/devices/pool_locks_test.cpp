// Pages of the process's pool, which the device of a test has locked.
#include "runtime/devices/pool_locks.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/memory_limit.hpp"
#include "device/host/host_device.hpp"
#include "pool/segment_pool.hpp"

namespace tessera::runtime {
namespace pool_locks_test {

constexpr std::size_t mib = std::size_t{1} << 20;

class LockingDevice final : public device::HostDevice {
 public:
  LockingDevice() : HostDevice(0, HostDeviceSettings{}) {}
  bool lock_pages(device::HostRange pages) noexcept override {
    locked += pages.end - pages.begin;
    return true;
  }
  bool unlock_pages(device::HostRange pages) noexcept override {
    locked -= pages.end - pages.begin;
    return true;
  }
  std::atomic<std::ptrdiff_t> locked = 0;
};

class PoolLocksTest : public testing::Test {
 protected:
  void SetUp() override {
    pool::SegmentPool::open_for_process(true);
    pool_ = pool::SegmentPool::of_process();
    if (memory_limit() < std::size_t{16} << 30) GTEST_SKIP() << "a machine of so little memory locks none of it";
    auto device = std::make_unique<LockingDevice>();
    device_ = device.get();
    accelerators_.push_back({std::move(device), nullptr});
    locks_.emplace(accelerators_);
    memory_ = static_cast<std::byte*>(pool_->allocate(8 * mib));
    std::memset(memory_, 1, 8 * mib);
  }
  void TearDown() override {
    locks_.reset();
    if (memory_ != nullptr) pool_->free(memory_);
  }
  /// Nothing is locked for a while after a fork. A minute is a hang.
  bool becomes_locked() {
    for (int i = 0; i < 6000 && pool_->locked_bytes() == 0; ++i) {
      locks_->note_used(std::vector<device::HostRange>{{memory_ + mib, memory_ + 2 * mib}});
      usleep(10000);
    }
    return pool_->locked_bytes() == 8 * mib && device_->locked == static_cast<std::ptrdiff_t>(8 * mib);
  }
  bool child_sees_memory() {
    const pid_t child = fork();
    if (child == 0) _exit(memory_[5 * mib] == std::byte{1} && pool_->locked_bytes() == 0 ? 0 : 1);
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0;
  }

  pool::SegmentPool* pool_ = nullptr;
  LockingDevice* device_ = nullptr;
  std::vector<kernels::Accelerator> accelerators_;
  std::optional<PoolLocks> locks_;
  std::byte* memory_ = nullptr;
};

TEST_F(PoolLocksTest, MemoryOfAPoolIsLockedAndNoOther) {
  int local = 0;
  const auto* const address = reinterpret_cast<const std::byte*>(&local);
  locks_->note_used(std::vector<device::HostRange>{{address, address + 4}, {nullptr, nullptr}});
  EXPECT_TRUE(becomes_locked());
}

TEST_F(PoolLocksTest, ForkUnlocksIt) {
  ASSERT_TRUE(becomes_locked());
  EXPECT_TRUE(child_sees_memory());
  EXPECT_EQ(pool_->locked_bytes(), 0U);
  EXPECT_EQ(device_->locked, 0);
  EXPECT_TRUE(becomes_locked());
}

TEST_F(PoolLocksTest, ForkLeavesLockedWhatAJobUses) {
  ASSERT_TRUE(becomes_locked());
  {
    const PoolLocks::Use use;
    EXPECT_TRUE(child_sees_memory());
    EXPECT_EQ(pool_->locked_bytes(), 8 * mib);
  }
  EXPECT_TRUE(child_sees_memory());
  EXPECT_EQ(pool_->locked_bytes(), 0U);
}

TEST_F(PoolLocksTest, ForkWaitsForJobsAndHoldsNewOnesUp) {
  ASSERT_TRUE(becomes_locked());
  std::atomic<bool> is_over = false;
  std::vector<std::thread> jobs;
  for (int t = 0; t < 3; ++t) {
    jobs.emplace_back([&] {
      while (!is_over) {
        const PoolLocks::Use use;
        usleep(1000);
      }
    });
  }
  EXPECT_TRUE(child_sees_memory());
  EXPECT_EQ(pool_->locked_bytes(), 0U);
  is_over = true;
  for (std::thread& job : jobs) job.join();
}

TEST_F(PoolLocksTest, TheEndOfARuntimeUnlocksIt) {
  ASSERT_TRUE(becomes_locked());
  locks_.reset();
  EXPECT_EQ(pool_->locked_bytes(), 0U);
  EXPECT_EQ(device_->locked, 0);
}

}  // namespace pool_locks_test
}  // namespace tessera::runtime
