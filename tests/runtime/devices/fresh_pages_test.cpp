#include "runtime/devices/fresh_pages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace tessera::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t page = 4096;
constexpr std::size_t mib = std::size_t{1} << 20;

/// Memory without pages, page-aligned.
class Mapping {
 public:
  explicit Mapping(std::size_t bytes) : bytes_(bytes) {
    begin_ = static_cast<std::byte*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    EXPECT_NE(static_cast<void*>(begin_), MAP_FAILED);
    // As pages of the usual size, so that each can be looked at.
    madvise(begin_, bytes, MADV_NOHUGEPAGE);
  }
  ~Mapping() { munmap(begin_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* begin() const { return begin_; }
  std::size_t pages_there() const {
    std::vector<unsigned char> there(bytes_ / page);
    EXPECT_EQ(mincore(begin_, bytes_, there.data()), 0);
    return static_cast<std::size_t>(std::count_if(there.begin(), there.end(), [](unsigned char p) { return p & 1; }));
  }
  bool is_there(std::size_t number) const {
    unsigned char there = 0;
    EXPECT_EQ(mincore(begin_ + number * page, page, &there), 0);
    return (there & 1) != 0;
  }

 private:
  std::byte* begin_ = nullptr;
  std::size_t bytes_;
};

bool can_make_pages() {
  const Mapping one(page);
  return madvise(one.begin(), page, 23 /* MADV_POPULATE_WRITE */) == 0;
}

WrittenArea area(std::byte* address, std::size_t pitch, std::size_t column, std::size_t columns,
                 Part part = Part::full) {
  return {{address, static_cast<index_t>(pitch)},
          {static_cast<index_t>(column), static_cast<index_t>(columns), part, 8}};
}

TEST(PagesInside, OfAMatrixWithoutGapsAreThoseOfAllColumnsInPieces) {
  auto* const begin = reinterpret_cast<std::byte*>(10 * page + 8);
  // 10 columns of 3000 bytes end in page 17.
  EXPECT_THAT(pages_inside(area(begin, 3000, 3000, 10), page, 4 * page),
              ElementsAre(Pages{reinterpret_cast<std::byte*>(11 * page), page},
                          Pages{reinterpret_cast<std::byte*>(12 * page), 4 * page},
                          Pages{reinterpret_cast<std::byte*>(16 * page), page}));
}

TEST(PagesInside, GapsOfLessThanAPageBelongToNobodyElse) {
  auto* const begin = reinterpret_cast<std::byte*>(16 * page);
  EXPECT_THAT(pages_inside(area(begin, 2 * page, page + 8, 4), page, 64 * page), ElementsAre(Pages{begin, 7 * page}));
}

TEST(PagesInside, NoPageOfALongerGap) {
  auto* const begin = reinterpret_cast<std::byte*>(16 * page);
  EXPECT_THAT(pages_inside(area(begin, 4 * page, 2 * page + 8, 2), page, 64 * page),
              ElementsAre(Pages{begin, 2 * page}, Pages{begin + 4 * page, 2 * page}));
  EXPECT_THAT(pages_inside(area(begin + 8, 4 * page, page, 2), page, 64 * page), IsEmpty());
}

TEST(PagesInside, OfATriangleAreThoseOfItsColumns) {
  auto* const begin = reinterpret_cast<std::byte*>(16 * page);
  const std::size_t n = 1024, column = 8 * n;
  std::size_t lower = 0, upper = 0;
  for (const Pages& pages : pages_inside(area(begin, column, column, n, Part::lower), page, 64 * page)) {
    const auto j = static_cast<std::size_t>(pages.begin - begin) / column;
    EXPECT_GE(pages.begin, begin + j * column + 8 * j);
    EXPECT_LE(pages.begin + pages.bytes, begin + (j + 1) * column);
    lower += pages.bytes;
  }
  for (const Pages& pages : pages_inside(area(begin, column, column, n, Part::upper), page, 64 * page)) {
    const auto j = static_cast<std::size_t>(pages.begin - begin) / column;
    EXPECT_LE(pages.begin + pages.bytes, begin + j * column + 8 * (j + 1));
    upper += pages.bytes;
  }
  EXPECT_GT(lower, n * page / 4);
  EXPECT_GT(upper, n * page / 4);
}

TEST(PagesInside, OfNothingAreNone) {
  auto* const begin = reinterpret_cast<std::byte*>(16 * page);
  EXPECT_THAT(pages_inside(area(begin, 0, 0, 4), page, page), IsEmpty());
  EXPECT_THAT(pages_inside(area(begin, 8, 8, 0), page, page), IsEmpty());
}

TEST(FreshPages, MakesAllPagesInsideAndNoOthers) {
  if (!can_make_pages()) GTEST_SKIP() << "the kernel makes no pages ahead";
  const Mapping memory(16 * mib);
  FreshPages pages(std::vector{area(memory.begin() + 100, 10 * mib, 10 * mib, 1)}, 3);
  pages.wait();
  EXPECT_EQ(pages.bytes(), 10 * mib - page);
  EXPECT_EQ(memory.pages_there(), 10 * mib / page - 1);
  EXPECT_FALSE(memory.is_there(0));
  EXPECT_TRUE(memory.is_there(1));
  EXPECT_FALSE(memory.is_there(10 * mib / page));
}

TEST(FreshPages, LeavesGapsBetweenColumnsAlone) {
  if (!can_make_pages()) GTEST_SKIP() << "the kernel makes no pages ahead";
  const Mapping memory(48 * mib);
  FreshPages pages(std::vector{area(memory.begin(), 3 * mib, mib, 16)}, 2);
  pages.wait();
  EXPECT_EQ(memory.pages_there(), 16 * mib / page);
  EXPECT_TRUE(memory.is_there(0));
  EXPECT_FALSE(memory.is_there(mib / page));
}

TEST(FreshPages, KeepsWhatIsThere) {
  const Mapping memory(16 * mib);
  for (std::size_t at = 0; at < 16 * mib; at += 5 * page) memory.begin()[at] = std::byte{7};
  FreshPages pages(std::vector{area(memory.begin(), 16 * mib, 16 * mib, 1)}, 4);
  pages.wait();
  for (std::size_t at = 0; at < 16 * mib; at += 5 * page) ASSERT_EQ(memory.begin()[at], std::byte{7});
  EXPECT_EQ(memory.begin()[page], std::byte{0});
}

TEST(FreshPages, PagesThatAreThereAreNotMade) {
  const Mapping memory(16 * mib);
  for (std::size_t at = 0; at < 16 * mib; at += page) memory.begin()[at] = std::byte{7};
  FreshPages pages(std::vector{area(memory.begin(), 16 * mib, 16 * mib, 1)}, 4);
  pages.wait();
  EXPECT_EQ(pages.bytes(), 0);
}

TEST(FreshPages, SmallAreasAreLeftToWhoeverWritesThem) {
  const Mapping memory(4 * mib);
  FreshPages pages(std::vector{area(memory.begin(), 4 * mib, 4 * mib, 1)}, 4);
  pages.wait();
  EXPECT_EQ(memory.pages_there(), 0U);
}

TEST(FreshPages, MemoryThatCannotBeWrittenEndsIt) {
  const Mapping memory(16 * mib);
  ASSERT_EQ(mprotect(memory.begin(), 16 * mib, PROT_READ), 0);
  FreshPages pages(std::vector{area(memory.begin(), 16 * mib, 16 * mib, 1)}, 4);
  pages.wait();
  EXPECT_EQ(pages.bytes(), 0);
}

TEST(FreshPages, NoPageIsMadeAfterItsEnd) {
  const Mapping memory(256 * mib);
  { const FreshPages pages(std::vector{area(memory.begin(), 256 * mib, 256 * mib, 1)}, 1); }
  const std::size_t there = memory.pages_there();
  usleep(20000);
  EXPECT_EQ(memory.pages_there(), there);
}

}  // namespace
}  // namespace tessera::runtime
