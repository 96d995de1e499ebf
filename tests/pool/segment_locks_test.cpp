// Page-locking of a pool's segments, by a locker that records what is locked.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "some_pool.hpp"

namespace tessera::pool {
namespace {

class RecordingLocker final : public PageLocker {
 public:
  ~RecordingLocker() { EXPECT_EQ(wrong_, 0); }

  bool lock(std::byte* begin, std::size_t bytes) noexcept override {
    const std::lock_guard held(mutex_);
    const auto next = locked_.lower_bound(begin);
    wrong_ += next != locked_.end() && next->first < begin + bytes ? 1 : 0;
    wrong_ += next != locked_.begin() && std::prev(next)->first + std::prev(next)->second > begin ? 1 : 0;
    if (!refuses_) locked_.emplace(begin, bytes);
    return !refuses_;
  }
  bool unlock(std::byte* begin, std::size_t bytes) noexcept override {
    const std::lock_guard held(mutex_);
    std::vector<unsigned char> pages(bytes / 4096);
    wrong_ += mincore(begin, bytes, pages.data()) == 0 ? 0 : 1;  // else it has been given back
    const auto found = locked_.find(begin);
    wrong_ += found != locked_.end() && found->second == bytes ? 0 : 1;
    if (refuses_) return false;
    is_waiting_ = waits_.load();
    while (waits_) usleep(100);
    locked_.erase(begin);
    return true;
  }
  void refuse() { refuses_ = true; }
  void wait_in_unlock() { waits_ = true; }
  void await_waiting() const {
    while (!is_waiting_) usleep(100);
  }
  void go_on() { waits_ = false; }
  bool has(const void* address) {
    const std::lock_guard held(mutex_);
    return locked_.contains(bytes_at(const_cast<void*>(address)));
  }
  std::size_t count() {
    const std::lock_guard held(mutex_);
    return locked_.size();
  }

 private:
  std::mutex mutex_;
  std::map<std::byte*, std::size_t> locked_;
  std::atomic<bool> refuses_ = false;
  std::atomic<bool> waits_ = false;
  std::atomic<bool> is_waiting_ = false;
  int wrong_ = 0;
};

SegmentPool::Limits with_locks(std::chrono::milliseconds patience = std::chrono::hours(1)) {
  return {512 * mib, 512 * mib, patience, 512 * mib};
}

/// A minute is a hang.
template <class Done>
bool comes_true(Done done) {
  for (int i = 0; i < 60000 && !done(); ++i) usleep(1000);
  return done();
}

void* written(SegmentPool& pool, std::size_t bytes) {
  void* const memory = pool.allocate(bytes);
  std::memset(memory, 7, pool.capacity_of(memory));
  return memory;
}
void* locked(SegmentPool& pool, std::size_t bytes, RecordingLocker& locker) {
  void* const memory = written(pool, bytes);
  pool.want_locked(memory, locker);
  EXPECT_TRUE(comes_true([&] { return locker.has(memory); }));
  EXPECT_TRUE(comes_true([&] { return pool.locked_bytes() >= bytes; }));
  return memory;
}

TEST(SegmentLocks, WhatDevicesHaveUsedIsLockedAndStaysSoForTheNext) {
  RecordingLocker locker;
  SegmentPool pool(with_locks());
  void* const memory = locked(pool, 8 * mib, locker);
  pool.want_locked(bytes_at(memory) + 5 * mib, locker);  // once
  pool.free(memory);
  EXPECT_EQ(pool.kept_bytes(), 8 * mib);
  EXPECT_TRUE(locker.has(memory));
  EXPECT_EQ(pool.allocate(8 * mib), memory);
  EXPECT_EQ(locker.count(), 1U);
  EXPECT_EQ(pool.locked_bytes(), 8 * mib);
  pool.free(memory);
}

TEST(SegmentLocks, ALockedPieceForCallocIsZeroWithItsPages) {
  RecordingLocker locker;
  SegmentPool pool(with_locks());
  void* const memory = locked(pool, 8 * mib, locker);
  pool.free(memory);
  auto* const zeroed = bytes_at(pool.allocate(8 * mib, true));
  ASSERT_EQ(zeroed, memory);
  EXPECT_TRUE(is_mapped(zeroed + mib)) << "devices would go on with the old page";
  EXPECT_EQ(zeroed[mib], std::byte{0});
  EXPECT_EQ(zeroed[8 * mib - 1], std::byte{0});
  pool.free(zeroed);
}

TEST(SegmentLocks, ALockedPieceKeepsItsSize) {
  RecordingLocker locker;
  SegmentPool pool(with_locks());
  void* const memory = locked(pool, 8 * mib, locker);
  EXPECT_EQ(pool.resize(memory, 32 * mib), nullptr);
  EXPECT_EQ(pool.resize(memory, 2 * mib), nullptr);
  EXPECT_EQ(pool.resize(memory, 8 * mib - 100), memory);
  EXPECT_EQ(bytes_at(memory)[5 * mib], std::byte{7});
  pool.free(memory);
}

TEST(SegmentLocks, WhatGoesBackIsUnlockedBefore) {
  RecordingLocker locker;
  SegmentPool pool(with_locks());
  void* const memory = locked(pool, 8 * mib, locker);
  pool.free(memory);
  EXPECT_TRUE(pool.trim());
  EXPECT_TRUE(comes_true([&] { return !is_mapped(memory); }));
  EXPECT_EQ(locker.count(), 0U);
  EXPECT_EQ(pool.locked_bytes(), 0U);
}

TEST(SegmentLocks, WhatIsIdleIsUnlockedAndGoesBack) {
  RecordingLocker locker;
  SegmentPool pool(with_locks(std::chrono::milliseconds(20)));
  void* const memory = locked(pool, 8 * mib, locker);
  pool.free(memory);
  EXPECT_TRUE(comes_true([&] { return !is_mapped(memory); }));
  EXPECT_EQ(locker.count(), 0U);
}

TEST(SegmentLocks, UnderPressureNothingIsLockedNorKeptSo) {
  static std::atomic<std::size_t> available = 1000;
  RecordingLocker locker;
  SegmentPool::Limits limits = with_locks();
  limits.least_available_bytes = 1000;
  limits.available = [] { return available.load(); };
  SegmentPool pool(limits);
  begin_to_keep(pool);
  void* const memory = locked(pool, 8 * mib, locker);
  void* const other = written(pool, 16 * mib);
  pool.free(written(pool, 32 * mib));
  pool.free(memory);
  EXPECT_EQ(pool.kept_bytes(), 40 * mib);
  available = 999;
  EXPECT_TRUE(comes_true([&] { return locker.count() == 0 && pool.locked_bytes() == 0; }));
  EXPECT_EQ(pool.kept_bytes(), 32 * mib) << "the kernel can take it by itself";
  pool.want_locked(other, locker);
  usleep(20000);
  EXPECT_EQ(locker.count(), 0U);
  pool.free(other);
}

TEST(SegmentLocks, NoMoreIsLockedThanMayBe) {
  RecordingLocker locker;
  SegmentPool::Limits limits = with_locks();
  limits.most_locked_bytes = 20 * mib;
  SegmentPool pool(limits);
  void* const one = locked(pool, 16 * mib, locker);
  void* const two = written(pool, 16 * mib);
  pool.want_locked(two, locker);
  void* const three = locked(pool, 4 * mib, locker);
  EXPECT_FALSE(locker.has(two));
  for (void* const memory : {one, two, three}) pool.free(memory);
}

TEST(SegmentLocks, ASegmentThatIsHardlyTouchedStaysAsItIs) {
  RecordingLocker locker;
  SegmentPool pool(with_locks());
  auto* const sparse = bytes_at(pool.allocate(64 * mib));
  sparse[0] = std::byte{1};
  pool.want_locked(sparse, locker);
  void* const other = locked(pool, 8 * mib, locker);  // the keeper has been at both
  EXPECT_FALSE(locker.has(sparse));
  EXPECT_FALSE(is_mapped(sparse + 63 * mib));
  pool.free(other);
  pool.free(sparse);
}

TEST(SegmentLocks, APieceFreedBeforeItIsLockedIsLockedAtItsNextUse) {
  RecordingLocker locker;
  SegmentPool::Limits limits = with_locks();
  limits.until_locks = {};
  SegmentPool pool(limits);
  begin_to_keep(pool);
  void* const memory = written(pool, 8 * mib);
  pool.before_fork(std::chrono::seconds(0));  // holds the keeper up
  pool.want_locked(memory, locker);
  pool.free(memory);
  pool.after_fork();
  EXPECT_EQ(pool.allocate(8 * mib), memory);
  std::memset(memory, 1, 8 * mib);
  EXPECT_TRUE(comes_true([&] { return locker.has(memory); }));
  pool.free(memory);
}

TEST(SegmentLocks, ForkUnlocksWhatIsUsedAndNothingIsLockedSoonAfter) {
  RecordingLocker locker;
  SegmentPool pool(with_locks());
  void* const used = locked(pool, 8 * mib, locker);
  void* const kept = locked(pool, 16 * mib, locker);
  pool.free(kept);
  pool.before_fork(std::chrono::seconds(60));
  EXPECT_FALSE(locker.has(used));
  EXPECT_TRUE(locker.has(kept)) << "a child has none of it";
  EXPECT_EQ(in_child([&] {
              const bool is_there = bytes_at(used)[mib] == std::byte{7};
              void* const other = pool.allocate(16 * mib);
              const bool is_own = pool.locked_bytes() == 0 && other != nullptr;
              pool.free(other);
              pool.free(used);
              return is_there && is_own ? 0 : 1;
            }),
            0);
  pool.after_fork();
  pool.want_locked(used, locker);
  usleep(20000);
  EXPECT_FALSE(locker.has(used));
  EXPECT_TRUE(comes_true([&] {
    pool.want_locked(used, locker);
    return locker.has(used);
  }));
  pool.free(used);
}

TEST(SegmentLocks, WhatIsFreedWhileItIsUnlockedIsNotKept) {
  RecordingLocker locker;
  SegmentPool pool(with_locks());
  void* const memory = locked(pool, 8 * mib, locker);
  locker.wait_in_unlock();
  std::thread forks([&] { pool.before_fork(std::chrono::seconds(60)); });
  locker.await_waiting();
  pool.free(memory);
  EXPECT_EQ(pool.kept_bytes(), 8 * mib);
  locker.go_on();
  forks.join();
  EXPECT_EQ(pool.kept_bytes(), 0U) << "the kernel could not take it";
  pool.after_fork();
}

TEST(SegmentLocks, TwoForksAtOnceBarUntilBothAreOver) {
  RecordingLocker locker;
  SegmentPool::Limits limits = with_locks();
  limits.until_locks = {};
  SegmentPool pool(limits);
  void* const memory = written(pool, 8 * mib);
  pool.before_fork(std::chrono::seconds(60));
  pool.before_fork(std::chrono::seconds(60));
  pool.after_fork();
  pool.want_locked(memory, locker);
  usleep(20000);
  EXPECT_EQ(locker.count(), 0U);
  pool.after_fork();
  pool.want_locked(memory, locker);
  EXPECT_TRUE(comes_true([&] { return locker.has(memory); }));
  pool.free(memory);
}

TEST(SegmentLocks, APieceThatIsLargerThanWhatWasAskedForIsLocked) {
  RecordingLocker locker;
  SegmentPool pool(with_locks());
  for (const std::size_t bytes : {4 * mib + 4096, 8 * mib + 4096, 80 * mib + 4096}) {
    void* const memory = pool.allocate(bytes);
    std::memset(memory, 7, bytes);
    pool.want_locked(memory, locker);
    EXPECT_TRUE(comes_true([&] { return locker.has(memory); })) << bytes;
    pool.free(memory);
  }
}

TEST(SegmentLocks, AddressesThatCannotBeUnlockedStayTaken) {
  RecordingLocker locker;
  SegmentPool pool(with_locks());
  void* const memory = locked(pool, 8 * mib, locker);
  locker.refuse();
  pool.free(memory);
  pool.trim();
  usleep(20000);
  EXPECT_TRUE(is_mapped(memory));
  EXPECT_TRUE(pool.has(memory));
}

TEST(SegmentLocks, WithoutLeaveNothingIsLocked) {
  RecordingLocker locker;
  SegmentPool pool(roomy);
  void* const memory = written(pool, 8 * mib);
  pool.want_locked(memory, locker);
  pool.want_locked(&locker, locker);  // not the pool's
  usleep(20000);
  EXPECT_EQ(locker.count(), 0U);
  pool.free(memory);
}

TEST(SegmentLocksThreads, ManyAtOnceWithForksAmongThem) {
  RecordingLocker locker;
  const SegmentPool::Limits limits{64 * mib, 64 * mib, std::chrono::milliseconds(1), 48 * mib,
                                   std::chrono::milliseconds(0)};
  SegmentPool pool(limits);
  std::atomic<int> wrong = 0;
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Churn churn(pool, t);
      churn.run(200, [&](std::byte* memory) {
        std::memset(memory + 1, 3, pool.capacity_of(memory) - 2);
        pool.want_locked(memory, locker);
      });
      wrong += churn.wrong();
    });
  }
  std::vector<std::thread> handlers;
  for (int t = 0; t < 2; ++t) {
    handlers.emplace_back([&] {
      while (!is_over) {
        pool.before_fork(std::chrono::milliseconds(1));
        pool.after_fork();
        usleep(2000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  for (std::thread& thread : handlers) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.used_bytes(), 0U);
  EXPECT_TRUE(comes_true([&] { return locker.count() == 0 && pool.locked_bytes() == 0; })) << "after a millisecond";
}

}  // namespace
}  // namespace tessera::pool
