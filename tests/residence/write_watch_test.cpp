// Which pages count as written: by stores, system calls, threads, children; dropped, moved and replaced ones.
#include "residence/write_watch.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace tessera::residence {
namespace {

const std::size_t page = WriteWatch::page_bytes();

/// Private anonymous memory.
class Pages {
 public:
  explicit Pages(std::size_t count, bool huge = false) : count_(count) {
    void* const at = mmap(nullptr, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin_ = static_cast<std::byte*>(at);
    madvise(begin_, count * page, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  ~Pages() { munmap(begin_, count_ * page); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* at(std::size_t number) const { return begin_ + number * page; }
  Range all() const { return {begin_, at(count_)}; }
  void fill(int value) const { std::memset(begin_, value, count_ * page); }

 private:
  std::size_t count_;
  std::byte* begin_ = nullptr;
};

class WriteWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      watch_ = std::make_unique<WriteWatch>();
    } catch (const NotAvailable& error) {
      GTEST_SKIP() << error.what();
    }
  }

  /// Numbers of the pages of `of` that have been written.
  std::vector<std::size_t> ask(const Pages& of) const { return ask(of, of.all()); }
  std::vector<std::size_t> ask(const Pages& of, Range range) const {
    std::vector<std::size_t> numbers;
    const bool knows = watch_->written(range, [&](Range run) {
      for (const std::byte* at = run.begin; at < run.end; at += page)
        numbers.push_back(static_cast<std::size_t>(at - of.at(0)) / page);
    });
    EXPECT_TRUE(knows);
    return numbers;
  }

  std::unique_ptr<WriteWatch> watch_;
};

using Numbers = std::vector<std::size_t>;

TEST_F(WriteWatchTest, TellsEachWrittenPageOnce) {
  const Pages pages(64);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  EXPECT_EQ(ask(pages).size(), 64U);
  EXPECT_EQ(ask(pages), Numbers{});
  *pages.at(3) = std::byte{2};
  pages.at(4)[page - 1] = std::byte{2};
  *pages.at(63) = std::byte{1};  // the same value
  EXPECT_EQ(ask(pages), (Numbers{3, 4, 63}));
  EXPECT_EQ(ask(pages), Numbers{});
}

TEST_F(WriteWatchTest, ReadingIsNotWriting) {
  const Pages pages(16);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  int sum = 0;
  for (std::size_t number = 0; number < 16; ++number) sum += static_cast<int>(*pages.at(number));
  EXPECT_EQ(sum, 16);
  EXPECT_EQ(ask(pages), Numbers{});
}

TEST_F(WriteWatchTest, PartsAreAskedForApart) {
  const Pages pages(16);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  for (const std::size_t number : {2, 9}) *pages.at(number) = std::byte{2};
  EXPECT_EQ(ask(pages, {pages.at(0), pages.at(8)}), Numbers{2});
  EXPECT_EQ(ask(pages), Numbers{9});
}

TEST_F(WriteWatchTest, MoreRunsThanFitAtOnce) {
  const Pages pages(4096);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  Numbers expected;
  for (std::size_t number = 0; number < 4096; number += 2) {
    *pages.at(number) = std::byte{2};
    expected.push_back(number);
  }
  EXPECT_EQ(ask(pages), expected);
}

TEST_F(WriteWatchTest, SystemCallsWrite) {
  const Pages pages(16);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(read(zeros, pages.at(5), 2 * page), static_cast<ssize_t>(2 * page));
  close(zeros);
  EXPECT_EQ(ask(pages), (Numbers{5, 6}));
}

TEST_F(WriteWatchTest, PagesThatWereNeverTouchedMayBeWrittenLater) {
  const Pages pages(16);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  *pages.at(7) = std::byte{1};
  EXPECT_EQ(ask(pages), Numbers{7});
}

TEST_F(WriteWatchTest, DroppedPagesHaveChanged) {
  const Pages pages(16);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  ASSERT_EQ(madvise(pages.at(2), 3 * page, MADV_DONTNEED), 0);
  EXPECT_EQ(ask(pages), (Numbers{2, 3, 4}));
}

TEST_F(WriteWatchTest, ReplacedMemoryIsNotKnown) {
  const Pages pages(16);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  ASSERT_NE(mmap(pages.at(4), page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  Numbers told;
  EXPECT_FALSE(watch_->written(pages.all(), [&](Range) {}));
}

// Nobody can read a hole. Memory that is mapped there later is not watched.
TEST_F(WriteWatchTest, WhatTakesThePlaceOfUnmappedMemoryIsNotKnown) {
  const Pages pages(16);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  munmap(pages.at(8), 8 * page);
  EXPECT_EQ(ask(pages), Numbers{});
  ASSERT_NE(mmap(pages.at(8), 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  EXPECT_FALSE(watch_->written(pages.all(), [](Range) {}));
  watch_->remove(pages.all());
}

TEST_F(WriteWatchTest, WritesOfAChildAreItsOwn) {
  const Pages pages(16);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  const pid_t child = fork();
  if (child == 0) {
    *pages.at(3) = std::byte{9};
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ask(pages), Numbers{});
  EXPECT_EQ(*pages.at(3), std::byte{1});
  *pages.at(4) = std::byte{2};  // copies the page, which the child has had, too
  EXPECT_EQ(ask(pages), Numbers{4});
}

TEST_F(WriteWatchTest, HugePages) {
  constexpr std::size_t count = 4096;  // 16 MiB
  const Pages pages(count, true);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  EXPECT_EQ(ask(pages).size(), count);
  EXPECT_EQ(ask(pages), Numbers{});
  *pages.at(1000) = std::byte{2};
  const Numbers found = ask(pages);
  EXPECT_NE(std::find(found.begin(), found.end(), 1000U), found.end());
  EXPECT_LE(found.size(), 512U);
  EXPECT_EQ(ask(pages), Numbers{});
}

TEST_F(WriteWatchTest, ExpectedWritesAreToldTogether) {
  const Pages pages(16);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  watch_->expect_writes({pages.at(4), pages.at(7)});
  *pages.at(5) = std::byte{2};
  EXPECT_EQ(ask(pages), (Numbers{4, 5, 6}));
  EXPECT_EQ(ask(pages), Numbers{});
  *pages.at(5) = std::byte{3};
  EXPECT_EQ(ask(pages), Numbers{5});
}

TEST_F(WriteWatchTest, LockedPages) {
  const Pages pages(16);
  pages.fill(1);
  if (mlock(pages.at(0), 16 * page) != 0) GTEST_SKIP() << "no memory may be locked";
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  *pages.at(11) = std::byte{2};
  EXPECT_EQ(ask(pages), Numbers{11});
}

TEST_F(WriteWatchTest, MovedMemoryIsNotKnown) {
  const Pages pages(16), space(16);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  ASSERT_NE(mremap(pages.at(0), 16 * page, 16 * page, MREMAP_MAYMOVE | MREMAP_FIXED, space.at(0)), MAP_FAILED);
  EXPECT_FALSE(watch_->written(space.all(), [](Range) {}));
}

// No write is missed: a page whose content differs from what a question saw is told by a later one.
TEST_F(WriteWatchTest, WritesBesideQuestions) {
  constexpr std::size_t count = 64;
  const Pages pages(count);
  pages.fill(0);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  std::vector<int> seen(count, 0), told(count, 0);
  std::thread writer([&] {
    for (int round = 1; round <= 2000; ++round) {
      const std::size_t number = static_cast<std::size_t>(round * 37) % count;
      __atomic_store_n(reinterpret_cast<int*>(pages.at(number)), round, __ATOMIC_RELAXED);
    }
  });
  const auto look = [&] {
    for (const std::size_t number : ask(pages)) {
      ++told[number];
      seen[number] = __atomic_load_n(reinterpret_cast<int*>(pages.at(number)), __ATOMIC_RELAXED);
    }
  };
  for (int question = 0; question < 200; ++question) look();
  writer.join();
  look();
  for (std::size_t number = 0; number < count; ++number) {
    EXPECT_EQ(seen[number], *reinterpret_cast<int*>(pages.at(number))) << number;
    EXPECT_GT(told[number], 0) << number;
  }
}

TEST_F(WriteWatchTest, RemovedMemoryIsPlainAgain) {
  const Pages pages(16);
  pages.fill(1);
  ASSERT_TRUE(watch_->add(pages.all()));
  ask(pages);
  watch_->remove(pages.all());
  pages.fill(2);
  EXPECT_FALSE(watch_->written(pages.all(), [](Range) {}));
  WriteWatch other;
  EXPECT_TRUE(other.add(pages.all()));
}

}  // namespace
}  // namespace tessera::residence
