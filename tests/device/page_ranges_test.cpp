#include "device/page_ranges.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tessera::device {
namespace page_ranges_test {

HostRange range(std::uintptr_t begin, std::uintptr_t end) {
  return {reinterpret_cast<const std::byte*>(begin), reinterpret_cast<const std::byte*>(end)};
}

std::vector<PageRange> pages(std::vector<HostRange> ranges) { return page_ranges(ranges, 4096); }

TEST(PageRanges, NothingForNothing) {
  EXPECT_TRUE(pages({}).empty());
  EXPECT_TRUE(pages({range(4096, 4096), range(0, 0)}).empty());
}

TEST(PageRanges, RoundsOutward) {
  EXPECT_EQ(pages({range(5000, 5001)}), (std::vector<PageRange>{{4096, 8192}}));
  EXPECT_EQ(pages({range(4096, 8192)}), (std::vector<PageRange>{{4096, 8192}}));
  EXPECT_EQ(pages({range(4095, 8193)}), (std::vector<PageRange>{{0, 12288}}));
}

TEST(PageRanges, MergesWhatOverlapsTouchesOrSharesAPage) {
  EXPECT_EQ(pages({range(20000, 30000), range(4096, 9000)}), (std::vector<PageRange>{{4096, 12288}, {16384, 32768}}));
  EXPECT_EQ(pages({range(8192, 12288), range(4096, 8192)}), (std::vector<PageRange>{{4096, 12288}}));
  EXPECT_EQ(pages({range(4096, 5000), range(5008, 6000)}), (std::vector<PageRange>{{4096, 8192}}));
  EXPECT_EQ(pages({range(4096, 40960), range(8192, 12288), range(4096, 40960)}),
            (std::vector<PageRange>{{4096, 40960}}));
}

TEST(PageRanges, CoverExactlyTheTouchedPages) {
  // All pairs of ranges over eight half pages, against a set of pages.
  constexpr std::uintptr_t half = 2048;
  constexpr std::uintptr_t ends = 8;
  std::vector<HostRange> all;
  for (std::uintptr_t begin = 0; begin <= ends; ++begin) {
    for (std::uintptr_t end = begin; end <= ends; ++end) all.push_back(range(4096 + begin * half, 4096 + end * half));
  }
  for (const HostRange& first : all) {
    for (const HostRange& second : all) {
      std::set<std::uintptr_t> touched;
      for (const HostRange& one : {first, second}) {
        for (const std::byte* at = one.begin; at < one.end; at += half) {
          touched.insert(reinterpret_cast<std::uintptr_t>(at) / 4096);
        }
      }
      std::set<std::uintptr_t> covered;
      std::uintptr_t before = 0;
      for (const PageRange& merged : pages({first, second})) {
        EXPECT_LT(before, merged.begin) << "sorted, with a gap between any two";
        before = merged.end;
        for (std::uintptr_t page = merged.begin; page < merged.end; page += 4096) covered.insert(page / 4096);
      }
      EXPECT_EQ(covered, touched);
    }
  }
}

}  // namespace page_ranges_test
}  // namespace tessera::device
