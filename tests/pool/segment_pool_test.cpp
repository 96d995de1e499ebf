#include "pool/segment_pool.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/memory_limit.hpp"
#include "some_pool.hpp"

namespace tessera::pool {
namespace {

/// Of all pools of the process.
int keepers() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    count += name == "ts-pool" ? 1 : 0;
  }
  return count;
}
/// A thread is there for a moment after it has ended. @return whether it comes to so many; a minute is a hang
bool comes_to_keepers(int count) {
  for (int i = 0; i < 60000 && keepers() != count; ++i) usleep(1000);
  return keepers() == count;
}

TEST(SegmentPool, MemoryIsAlignedAndHasRoom) {
  SegmentPool pool(roomy);
  for (const std::size_t bytes : {std::size_t{1}, 2 * mib, 4 * mib + 1, 100 * mib - 7}) {
    void* const memory = pool.allocate(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % SegmentPool::unit, 0U);
    EXPECT_GE(pool.capacity_of(memory), bytes);
    EXPECT_LE(pool.capacity_of(memory), bytes + bytes / 8 + SegmentPool::unit);
    EXPECT_TRUE(pool.has(memory));
    EXPECT_TRUE(pool.has(bytes_at(memory) + bytes - 1));
    std::memset(memory, 1, bytes);
    pool.free(memory);
  }
  EXPECT_EQ(pool.used_bytes(), 0U);
  EXPECT_FALSE(pool.has(&pool));
  EXPECT_FALSE(pool.has(nullptr));
}

TEST(SegmentPool, AFreedSegmentServesTheNextWithItsPages) {
  SegmentPool pool(roomy);
  begin_to_keep(pool);
  void* const first = pool.allocate(8 * mib);
  std::memset(first, 1, 8 * mib);
  pool.free(first);
  EXPECT_EQ(pool.kept_bytes(), 8 * mib);
  EXPECT_TRUE(is_mapped(first));
  void* const second = pool.allocate(7 * mib);
  EXPECT_EQ(second, first);
  EXPECT_EQ(pool.kept_bytes(), 0U);
  void* const third = pool.allocate(8 * mib);
  EXPECT_NE(third, first);
  pool.free(second);
  pool.free(third);
  void* const small = pool.allocate(4 * mib);
  EXPECT_NE(small, first) << "much would be left over";
  EXPECT_NE(small, third);
  pool.free(small);
}

std::size_t pages_there(const void* address, std::size_t bytes) {
  std::vector<unsigned char> there(bytes / 4096);
  EXPECT_EQ(mincore(const_cast<void*>(address), bytes, there.data()), 0);
  return static_cast<std::size_t>(std::count_if(there.begin(), there.end(), [](auto page) { return (page & 1) != 0; }));
}

TEST(SegmentPool, ZeroedMemoryIsZeroAndNotTouched) {
  SegmentPool pool({512 * mib, 0, std::chrono::hours(1)});
  begin_to_keep(pool);
  for (int turn = 0; turn < 3; ++turn) {
    auto* const memory = bytes_at(pool.allocate(64 * mib, true));
    EXPECT_LE(pages_there(memory, 64 * mib), 1U) << turn;
    EXPECT_TRUE(std::all_of(memory, memory + 64 * mib, [](std::byte b) { return b == std::byte{0}; }));
    std::memset(memory, 9, 64 * mib);
    pool.free(memory);
  }
}

TEST(SegmentPool, GrowsWithItsContentWhereverThereIsRoom) {
  SegmentPool pool({512 * mib, 0, std::chrono::hours(1)});
  auto* memory = bytes_at(pool.allocate(4 * mib));
  std::vector<void*> others;
  std::size_t before = 4 * mib;
  for (std::size_t bytes = 6 * mib; bytes < 400 * mib; bytes += bytes / 3) {
    memory[before - 1] = std::byte{3};
    memory = bytes_at(pool.resize(memory, bytes));
    ASSERT_NE(memory, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % SegmentPool::unit, 0U);
    EXPECT_EQ(memory[before - 1], std::byte{3}) << bytes;
    EXPECT_GE(pool.capacity_of(memory), bytes);
    EXPECT_TRUE(pool.has(memory + bytes - 1));
    before = bytes;
    others.push_back(pool.allocate(4 * mib));  // perhaps just behind it
  }
  EXPECT_LE(pages_there(memory, pool.capacity_of(memory)), 200U) << "nothing is copied";
  EXPECT_EQ(pool.resize(memory, std::size_t{1} << 60), nullptr);
  for (void* const other : others) pool.free(other);
  pool.free(memory);
  EXPECT_EQ(pool.used_bytes(), 0U);
}

TEST(SegmentPool, WhatIsBehindASmallerSizeIsGivenBack) {
  SegmentPool pool(roomy);
  auto* const memory = bytes_at(pool.allocate(64 * mib));
  std::memset(memory, 1, 64 * mib);
  EXPECT_EQ(pool.resize(memory, 10 * mib), memory);
  EXPECT_FALSE(pool.has(memory + 10 * mib));
  EXPECT_FALSE(is_mapped(memory + 10 * mib));
  EXPECT_EQ(pool.used_bytes(), 10 * mib);
  EXPECT_EQ(memory[10 * mib - 1], std::byte{1});
  pool.free(memory);
}

TEST(SegmentPool, ALockedOrDividedPieceIsServedToo) {
  SegmentPool pool(roomy);
  begin_to_keep(pool);
  auto* const locked = bytes_at(pool.allocate(4 * mib));
  if (syscall(SYS_mlock, locked, 4096) == 0) {  // sanitizers leave mlock() out
    pool.free(locked);
    EXPECT_EQ(pool.kept_bytes(), 0U) << "the kernel could not take it";
  }
  auto* const divided = bytes_at(pool.allocate(4 * mib));
  divided[5] = std::byte{5};
  ASSERT_EQ(mprotect(divided + 2 * mib, 4096, PROT_READ), 0);
  EXPECT_EQ(pool.resize(divided, 300 * mib), nullptr);
  EXPECT_EQ(divided[5], std::byte{5});
  EXPECT_TRUE(pool.has(divided + 4 * mib - 1));
  pool.free(divided);
}

TEST(SegmentPool, KeepsNoMoreThanItMay) {
  SegmentPool pool({20 * mib, 0, std::chrono::hours(1)});
  begin_to_keep(pool);
  std::vector<void*> all;
  for (int i = 0; i < 5; ++i) all.push_back(pool.allocate(8 * mib));
  for (void* const memory : all) std::memset(memory, 1, 8 * mib);
  for (void* const memory : all) pool.free(memory);
  EXPECT_EQ(pool.kept_bytes(), 16 * mib);
  EXPECT_FALSE(is_mapped(all[0])) << "the oldest go first";
  EXPECT_TRUE(is_mapped(all[4]));
  EXPECT_TRUE(pool.trim());
  EXPECT_EQ(pool.kept_bytes(), 0U);
  EXPECT_FALSE(is_mapped(all[4]));
  EXPECT_FALSE(pool.trim());
  void* const large = pool.allocate(24 * mib);
  pool.free(large);
  EXPECT_EQ(pool.kept_bytes(), 0U) << "more than may be kept";
}

TEST(SegmentPool, GivesBackWhatIsIdle) {
  SegmentPool pool({512 * mib, 0, std::chrono::milliseconds(1)});
  begin_to_keep(pool);
  for (int turn = 0; turn < 3; ++turn) {
    void* const memory = pool.allocate(8 * mib);
    std::memset(memory, 1, 8 * mib);
    pool.free(memory);
    for (int i = 0; i < 60000 && pool.kept_bytes() > 0; ++i) usleep(1000);  // a minute is a hang
    EXPECT_EQ(pool.kept_bytes(), 0U);
  }
}

/// Whether the kernel was asked for large pages there.
bool is_large(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0, last = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2 && line.find(": ") == std::string::npos)
      is_here = first <= reinterpret_cast<std::uintptr_t>(address) && reinterpret_cast<std::uintptr_t>(address) < last;
    if (is_here && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST(SegmentPool, APartOfMemoryIsOfLargePages) {
  SegmentPool pool({512 * mib, 20 * mib, std::chrono::hours(1)});
  auto* const one = bytes_at(pool.allocate(16 * mib));
  if (!is_large(one)) GTEST_SKIP() << "this kernel has none, or does not tell";
  void* const two = pool.allocate(8 * mib);
  EXPECT_FALSE(is_large(two)) << "more than a part";
  EXPECT_EQ(pool.resize(one, 4 * mib), one);
  void* const three = pool.allocate(16 * mib);
  EXPECT_TRUE(is_large(three)) << "the rest of the first one has been given back";
  for (void* const memory : {static_cast<void*>(one), two, three}) pool.free(memory);
  pool.trim();
  void* const four = pool.allocate(20 * mib);
  EXPECT_TRUE(is_large(four));
  pool.free(four);
}

TEST(SegmentPool, GrowingTakesNoMoreLargePagesThanItMay) {
  SegmentPool pool({512 * mib, 64 * mib, std::chrono::hours(1)});
  auto* const small = bytes_at(pool.allocate(16 * mib));
  if (!is_large(small)) GTEST_SKIP() << "this kernel has none, or does not tell";
  auto* const grown = bytes_at(pool.resize(small, 256 * mib));
  EXPECT_FALSE(is_large(grown + mib));
  EXPECT_FALSE(is_large(grown + 200 * mib));
  void* const other = pool.allocate(64 * mib);
  EXPECT_TRUE(is_large(other));
  pool.free(other);
  pool.free(grown);
}

TEST(SegmentPool, NothingAndTooMuchAreNotThere) {
  SegmentPool pool(roomy);
  EXPECT_EQ(pool.allocate(0), nullptr);
  EXPECT_EQ(pool.allocate(std::size_t{1} << 60), nullptr);
  EXPECT_EQ(pool.allocate(static_cast<std::size_t>(-1)), nullptr);
  int mode = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
  if (mode == 1) GTEST_SKIP() << "this kernel promises more memory than there is";
  EXPECT_EQ(pool.allocate(20 * memory_limit()), nullptr);
}

// A sanitizer's shadow is more than such limits leave.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(SegmentPool, WhatIsKeptDoesNotStandInTheWay) {
  const int result = in_child([] {
    SegmentPool pool({std::size_t{8} << 30, 0, std::chrono::hours(1)});
    begin_to_keep(pool);
    std::vector<void*> parts;
    for (int i = 0; i < 32; ++i) parts.push_back(pool.allocate(16 * mib));
    for (void* const part : parts) pool.free(part);
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{static_cast<rlim_t>(pages) * 4096 + 64 * mib, RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 2;
    void* const whole = pool.allocate(256 * mib);
    if (whole == nullptr) return 3;
    if (pool.allocate(600 * mib) != nullptr) return 4;
    pool.free(whole);
    if (pool.kept_bytes() != 0) return 5;  // other mappings of the program may need the addresses
    return 0;
  });
  EXPECT_EQ(result, 0);
}
#endif

TEST(SegmentPoolDeathTest, WhatIsNoPieceOfItsEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "fast");
  SegmentPool pool(roomy);
  auto* const memory = bytes_at(pool.allocate(8 * mib));
  int local = 0;
  EXPECT_DEATH(pool.free(memory + 64), "invalid");
  EXPECT_DEATH(pool.free(memory + SegmentPool::unit), "invalid");
  EXPECT_DEATH(pool.free(&local), "invalid");
  pool.free(memory);
  EXPECT_DEATH(pool.free(memory), "has been freed");
  EXPECT_DEATH(static_cast<void>(pool.resize(memory, 16 * mib)), "has been freed");
  pool.trim();
  EXPECT_DEATH(pool.free(memory), "has been freed");
}

TEST(SegmentPoolThreads, ManyAtOnceEachHaveTheirOwn) {
  SegmentPool pool({64 * mib, 64 * mib, std::chrono::milliseconds(1)});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Churn churn(pool, t);
      churn.run(500);
      wrong += churn.wrong();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.used_bytes(), 0U);
}

TEST(SegmentPoolProcess, TellsItsOwnAddresses) {
  EXPECT_FALSE(SegmentPool::owns(nullptr));
  int local = 0;
  EXPECT_FALSE(SegmentPool::owns(&local));
  SegmentPool::open_for_process(false);
  SegmentPool::open_for_process(true);
  ASSERT_NE(SegmentPool::of_process(), nullptr);
  SegmentPool& pool = *SegmentPool::of_process();
  void* const memory = pool.allocate(4 * mib);
  EXPECT_TRUE(SegmentPool::owns(memory));
  EXPECT_TRUE(SegmentPool::owns(bytes_at(memory) + 4 * mib - 1));
  EXPECT_FALSE(SegmentPool::owns(&local));
  EXPECT_FALSE(SegmentPool::owns(reinterpret_cast<void*>(~std::uintptr_t{0})));
  pool.free(memory);
}

// Also from a handler of fork that runs before any of ours could: nothing of a thread that is gone is waited for.
TEST(SegmentPoolProcess, AChildHasTheMemoryAndAPoolOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer knows no threads of a child of many threads";
#endif
  SegmentPool pool({64 * mib, 64 * mib, std::chrono::milliseconds(1)});
  auto* const memory = bytes_at(pool.allocate(4 * mib));
  memory[mib] = std::byte{42};
  std::atomic<bool> over = false;
  std::vector<std::thread> beside;
  for (unsigned t = 0; t < 2; ++t) {
    beside.emplace_back([&, t] {
      Churn churn(pool, t);
      while (!over) churn.run(20);
    });
  }
  for (unsigned i = 0; i < 50; ++i) {
    const int result = in_child([&] {
      const bool is_there = memory[mib] == std::byte{42};
      memory[mib] = std::byte{1};
      Churn churn(pool, i);
      churn.run(50);
      const bool is_right = in_child([&] {
                              Churn grandchilds(pool, i);
                              grandchilds.run(10);
                              pool.free(memory);
                              return grandchilds.wrong();
                            }) == 0;
      pool.free(memory);
      return is_there && is_right && churn.wrong() == 0 ? 0 : 1;
    });
    EXPECT_EQ(result, 0);
  }
  over = true;
  for (std::thread& thread : beside) thread.join();
  EXPECT_EQ(memory[mib], std::byte{42});
  pool.free(memory);
}

TEST(SegmentPoolProcess, AChildHasNothingOfWhatWasKept) {
  SegmentPool pool(roomy);
  begin_to_keep(pool);
  void* const used = pool.allocate(4 * mib);
  void* const kept = pool.allocate(16 * mib);
  std::memset(kept, 1, 16 * mib);
  pool.free(kept);
  EXPECT_EQ(in_child([&] { return is_mapped(kept) ? 1 : 0; }), 0) << "not even before it asks for anything";
  EXPECT_EQ(in_child([&] {
              const bool is_left = pool.kept_bytes() == 0 && !pool.has(kept) && !is_mapped(kept);
              return is_left && pool.used_bytes() == 4 * mib && pool.has(used) ? 0 : 1;
            }),
            0);
  EXPECT_EQ(pool.kept_bytes(), 16 * mib);
  pool.free(used);
}

TEST(SegmentPoolProcess, AChildMayBeginWithAnything) {
  SegmentPool pool(roomy);
  begin_to_keep(pool);
  void* const memory = pool.allocate(8 * mib);
  void* const other = pool.allocate(8 * mib);
  EXPECT_EQ(in_child([&] {
              pool.free(memory);
              auto* const next = bytes_at(pool.allocate(8 * mib));
              std::memset(next, 1, 8 * mib);
              return pool.used_bytes() == 16 * mib ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([&] {
              auto* const larger = bytes_at(pool.resize(memory, 40 * mib));
              std::memset(larger, 1, 40 * mib);
              return pool.used_bytes() == 48 * mib ? 0 : 1;
            }),
            0);
  pool.free(memory);
  pool.free(other);
}

TEST(SegmentPoolProcess, AnOwnersSettingsEndWithThePiece) {
  SegmentPool pool(roomy);
  begin_to_keep(pool);
  auto* const memory = bytes_at(pool.allocate(8 * mib));
  ASSERT_EQ(mprotect(memory + 4096, 4096, PROT_READ), 0);
  ASSERT_EQ(madvise(memory + 4 * mib, mib, MADV_DONTFORK), 0);
  pool.free(memory);
  auto* const next = bytes_at(pool.allocate(8 * mib));
  EXPECT_EQ(next, memory);
  std::memset(next, 5, 8 * mib);
  EXPECT_EQ(in_child([&] { return next[4 * mib] == std::byte{5} && next[0] == std::byte{5} ? 0 : 1; }), 0);
  pool.free(next);
}

TEST(SegmentPoolThreads, OneIsThereOnlyWhileItHasToDo) {
  SegmentPool pool(roomy);
  ASSERT_TRUE(comes_to_keepers(0));
  void* const one = pool.allocate(8 * mib);
  void* const two = pool.allocate(8 * mib);
  pool.free(one);
  EXPECT_EQ(keepers(), 0);
  EXPECT_EQ(pool.kept_bytes(), 0U);
  void* const three = pool.allocate(8 * mib);
  pool.free(two);
  EXPECT_TRUE(comes_to_keepers(1));
  EXPECT_EQ(pool.kept_bytes(), 8 * mib);
  pool.trim();
  pool.free(three);
  pool.trim();
  pool.free(pool.allocate(600 * mib));  // more than may be kept
  EXPECT_TRUE(comes_to_keepers(0));
}

}  // namespace
}  // namespace tessera::pool
