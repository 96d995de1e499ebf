#include "pool/segment_pool.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace tessera::pool {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr SegmentPool::Limits roomy = {std::size_t{8} << 30, 512 * mib, std::chrono::hours(1)};

std::byte* bytes_at(void* address) { return static_cast<std::byte*>(address); }

bool is_mapped(const void* address) {
  unsigned char there = 0;
  return mincore(const_cast<void*>(address), 4096, &there) == 0 && (there & 1) != 0;
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

TEST(SegmentPool, ZeroedMemoryIsZeroWhateverWasThere) {
  SegmentPool pool(roomy);
  for (int turn = 0; turn < 3; ++turn) {
    auto* const memory = bytes_at(pool.allocate(5 * mib, true));
    EXPECT_TRUE(std::all_of(memory, memory + 5 * mib, [](std::byte b) { return b == std::byte{0}; }));
    if (turn == 0) {
      EXPECT_EQ(pool.kept_bytes(), 0U);
    }
    std::memset(memory, 9, 5 * mib);
    pool.free(memory);
  }
}

TEST(SegmentPool, NewZeroedMemoryIsNotTouched) {
  SegmentPool pool(roomy);
  void* const memory = pool.allocate(64 * mib, true);
  EXPECT_FALSE(is_mapped(bytes_at(memory) + 32 * mib));
  pool.free(memory);
}

TEST(SegmentPool, GrowsInPlaceWhereNobodyIsBehind) {
  SegmentPool pool(roomy);
  auto* const memory = bytes_at(pool.allocate(4 * mib));
  memory[4 * mib - 1] = std::byte{3};
  EXPECT_TRUE(pool.resize(memory, 40 * mib));
  memory[40 * mib - 1] = std::byte{5};
  EXPECT_EQ(memory[4 * mib - 1], std::byte{3});
  void* const behind = pool.allocate(4 * mib);
  EXPECT_EQ(behind, memory + pool.capacity_of(memory));
  EXPECT_FALSE(pool.resize(memory, 80 * mib));
  EXPECT_TRUE(pool.resize(memory, 30 * mib));
  EXPECT_FALSE(pool.resize(memory, 4 * mib)) << "most of it would be kept for nothing";
  EXPECT_FALSE(pool.resize(memory, std::size_t{1} << 60));
  pool.free(memory);
  pool.free(behind);
}

TEST(SegmentPool, KeepsNoMoreThanItMay) {
  SegmentPool pool({std::size_t{8} << 30, 20 * mib, std::chrono::hours(1)});
  std::vector<void*> all;
  for (int i = 0; i < 5; ++i) all.push_back(pool.allocate(8 * mib));
  for (void* const memory : all) std::memset(memory, 1, 8 * mib);
  for (void* const memory : all) pool.free(memory);
  EXPECT_EQ(pool.kept_bytes(), 16 * mib);
  EXPECT_FALSE(is_mapped(all[0])) << "the oldest go first";
  EXPECT_TRUE(is_mapped(all[4]));
  pool.trim();
  EXPECT_EQ(pool.kept_bytes(), 0U);
  EXPECT_FALSE(is_mapped(all[4]));
}

TEST(SegmentPool, GivesBackWhatIsIdle) {
  SegmentPool pool({std::size_t{8} << 30, 512 * mib, std::chrono::milliseconds(1)});
  for (int turn = 0; turn < 3; ++turn) {
    void* const memory = pool.allocate(8 * mib);
    std::memset(memory, 1, 8 * mib);
    pool.free(memory);
    for (int i = 0; i < 60000 && pool.kept_bytes() > 0; ++i) usleep(1000);  // a minute is a hang
    EXPECT_EQ(pool.kept_bytes(), 0U);
  }
}

TEST(SegmentPool, AddressesComeBack) {
  SegmentPool pool({64 * mib, 0, std::chrono::hours(1)});
  for (int turn = 0; turn < 100; ++turn) {
    void* const whole = pool.allocate(56 * mib);
    ASSERT_NE(whole, nullptr) << turn;
    EXPECT_EQ(pool.allocate(56 * mib), nullptr);
    pool.free(whole);
    std::vector<void*> parts;
    for (int i = 0; i < 7; ++i) parts.push_back(pool.allocate(8 * mib));
    EXPECT_EQ(std::count(parts.begin(), parts.end(), nullptr), 0);
    std::shuffle(parts.begin(), parts.end(), std::mt19937(static_cast<unsigned>(turn)));
    for (void* const part : parts) pool.free(part);
  }
}

TEST(SegmentPool, WhatIsKeptDoesNotStandInTheWay) {
  SegmentPool pool({64 * mib, 512 * mib, std::chrono::hours(1)});
  std::vector<void*> parts;
  for (int i = 0; i < 7; ++i) parts.push_back(pool.allocate(8 * mib));
  for (void* const part : parts) pool.free(part);
  void* const whole = pool.allocate(56 * mib);
  EXPECT_NE(whole, nullptr);
  if (whole != nullptr) pool.free(whole);
}

TEST(SegmentPool, NothingAndTooMuchAreNotThere) {
  SegmentPool pool(roomy);
  EXPECT_EQ(pool.allocate(0), nullptr);
  EXPECT_EQ(pool.allocate(std::size_t{1} << 60), nullptr);
  EXPECT_EQ(pool.allocate(static_cast<std::size_t>(-1)), nullptr);
}

TEST(SegmentPool, WhereAddressesAreCountedThereIsNone) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{std::size_t{64} << 30, std::size_t{64} << 30};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    SegmentPool pool(roomy);
    _exit(pool.allocate(8 * mib) == nullptr && !pool.has(&pool) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Writes a pattern at both ends of each piece, and expects it there later.
class Churn {
 public:
  Churn(SegmentPool& pool, unsigned seed) : pool_(pool), random_(seed) {}
  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      if (pieces_.size() < 4 || (pieces_.size() < 12 && random_() % 2 == 0))
        add();
      else
        (random_() % 3 == 0) ? change() : drop();
    }
    while (!pieces_.empty()) drop();
  }
  int wrong() const { return wrong_; }

 private:
  struct Piece {
    std::byte* begin;
    std::size_t bytes;
    std::byte mark;
  };
  std::size_t some_bytes() { return mib + random_() % (15 * mib); }
  void mark(Piece& piece) {
    piece.mark = static_cast<std::byte>(random_());
    piece.begin[0] = piece.begin[piece.bytes - 1] = piece.mark;
  }
  void check(const Piece& piece) { wrong_ += piece.begin[0] != piece.mark ? 1 : 0; }
  void add() {
    const std::size_t bytes = some_bytes();
    const bool zeroed = random_() % 4 == 0;
    auto* const begin = bytes_at(pool_.allocate(bytes, zeroed));
    if (begin == nullptr) return;
    if (zeroed) wrong_ += begin[0] != std::byte{0} || begin[bytes - 1] != std::byte{0} ? 1 : 0;
    pieces_.push_back({begin, bytes, {}});
    mark(pieces_.back());
  }
  void change() {
    Piece& piece = pieces_[random_() % pieces_.size()];
    check(piece);
    const std::size_t bytes = some_bytes();
    if (!pool_.resize(piece.begin, bytes)) return;
    piece.bytes = bytes;
    mark(piece);
  }
  void drop() {
    const std::size_t at = random_() % pieces_.size();
    check(pieces_[at]);
    pool_.free(pieces_[at].begin);
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  SegmentPool& pool_;
  std::mt19937 random_;
  std::vector<Piece> pieces_;
  int wrong_ = 0;
};

TEST(SegmentPoolThreads, ManyAtOnceEachHaveTheirOwn) {
  SegmentPool pool({std::size_t{4} << 30, 64 * mib, std::chrono::milliseconds(1)});
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
  ASSERT_NE(SegmentPool::of_process(), nullptr);
  SegmentPool& pool = *SegmentPool::of_process();
  void* const memory = pool.allocate(4 * mib);
  EXPECT_TRUE(SegmentPool::owns(memory));
  EXPECT_FALSE(SegmentPool::owns(&local));
  pool.free(memory);
}

TEST(SegmentPoolProcess, AChildHasTheMemoryAndAPoolOfItsOwn) {
  ASSERT_NE(SegmentPool::of_process(), nullptr);
  SegmentPool& pool = *SegmentPool::of_process();
  auto* const memory = bytes_at(pool.allocate(4 * mib));
  memory[mib] = std::byte{42};
  void* const kept = pool.allocate(8 * mib);
  std::memset(kept, 1, 8 * mib);
  pool.free(kept);  // a keeper is there now
  std::atomic<bool> over = false;
  std::thread beside([&] {
    Churn churn(pool, 7);
    while (!over) churn.run(20);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const bool is_there = memory[mib] == std::byte{42};
      memory[mib] = std::byte{1};
      Churn churn(pool, 8);
      churn.run(50);
      pool.free(memory);
      _exit(is_there && churn.wrong() == 0 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  over = true;
  beside.join();
  EXPECT_EQ(memory[mib], std::byte{42});
  pool.free(memory);
}

}  // namespace
}  // namespace tessera::pool
