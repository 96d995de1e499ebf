// Pages of the process's pool, which the device of a test has locked.
#include "runtime/devices/pool_locks.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "core/memory_limit.hpp"
#include "device/host/host_device.hpp"
#include "pool/segment_pool.hpp"

namespace tessera::runtime {
namespace pool_locks_test {

constexpr std::size_t mib = std::size_t{1} << 20;

class PoolLocksTest : public testing::Test {
 protected:
  void SetUp() override {
    pool::SegmentPool::open_for_process(true);
    pool_ = pool::SegmentPool::of_process();
    if (memory_limit() < std::size_t{16} << 30) GTEST_SKIP() << "a machine of so little memory locks none of it";
    watch_forks_for_pools();
    memory_ = static_cast<std::byte*>(pool_->allocate(8 * mib));
    std::memset(memory_, 1, 8 * mib);
  }
  void TearDown() override {
    if (memory_ != nullptr) pool_->free(memory_);
    pool_->trim();
  }
  void want(const std::byte* address) {
    want_locked(std::vector<device::HostRange>{{address, address + 4}}, *device_.page_locker());
  }
  /// Nothing is locked for a while after a fork. A minute is a hang.
  bool becomes_locked() {
    for (int i = 0; i < 6000 && pool_->locked_bytes() == 0; ++i) {
      want(memory_ + mib);
      usleep(10000);
    }
    return pool_->locked_bytes() == 8 * mib;
  }
  bool child_sees_memory() {
    const pid_t child = fork();
    if (child == 0) _exit(memory_[5 * mib] == std::byte{1} && pool_->locked_bytes() == 0 ? 0 : 1);
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0;
  }

  pool::SegmentPool* pool_ = nullptr;
  device::HostDevice device_{0, HostDeviceSettings{}};
  std::byte* memory_ = nullptr;
};

TEST_F(PoolLocksTest, MemoryOfAPoolIsLockedAndNoOther) {
  const std::byte local{};
  want(&local);
  want(nullptr);
  EXPECT_TRUE(becomes_locked());
}

TEST_F(PoolLocksTest, ForkUnlocksIt) {
  ASSERT_TRUE(becomes_locked());
  EXPECT_TRUE(child_sees_memory());
  EXPECT_EQ(pool_->locked_bytes(), 0U);
  EXPECT_TRUE(becomes_locked());
}

TEST_F(PoolLocksTest, ForkLeavesLockedWhatAJobUses) {
  ASSERT_TRUE(becomes_locked());
  {
    const UseOfPools use;
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
        const UseOfPools use;
        usleep(1000);
      }
    });
  }
  EXPECT_TRUE(child_sees_memory());
  EXPECT_EQ(pool_->locked_bytes(), 0U);
  is_over = true;
  for (std::thread& job : jobs) job.join();
}

TEST_F(PoolLocksTest, AForkBesideAJobIsNoPointOfCancellation) {
  ASSERT_TRUE(becomes_locked());
  const UseOfPools use;
  std::atomic<bool> is_cancelled = false;
  std::atomic<int> status = -1;
  std::thread forks([&] {
    while (!is_cancelled) sched_yield();
    const pid_t child = fork();
    if (child == 0) _exit(0);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);  // waitpid() is such a point itself
    int ended = -1;
    waitpid(child, &ended, 0);
    status = ended;
  });
  pthread_cancel(forks.native_handle());
  is_cancelled = true;
  forks.join();
  EXPECT_EQ(status, 0) << "the thread has ended in fork()";
}

}  // namespace pool_locks_test
}  // namespace tessera::runtime
