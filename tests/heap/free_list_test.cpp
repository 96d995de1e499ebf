// The free list by property: random allocations and frees against a plain list of intervals, invariants after every call.
#include "heap/free_list.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "core/error.hpp"
#include "heap/device_heap.hpp"

namespace tessera::heap {
namespace free_list_test {

constexpr std::size_t unit = FreeList::alignment;

TEST(FreeList, SplitsAndMergesNeighbours) {
  FreeList list(10 * unit);
  const auto a = list.allocate(3 * unit);
  const auto b = list.allocate(1);
  const auto c = list.allocate(2 * unit);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(*a, 0u);
  EXPECT_EQ(*b, 3 * unit);
  EXPECT_EQ(*c, 4 * unit);
  EXPECT_EQ(list.free_bytes(), 4 * unit);
  list.free(*a);
  list.free(*c);
  EXPECT_EQ(list.largest_free_bytes(), 6 * unit);  // c merged with the rest behind it
  list.free(*b);                                   // merges with both sides
  EXPECT_EQ(list.largest_free_bytes(), 10 * unit);
  list.check_invariants();
}

TEST(FreeList, FirstFitTakesTheLowestSegment) {
  FreeList list(8 * unit);
  const auto a = list.allocate(2 * unit);
  const auto b = list.allocate(2 * unit);
  ASSERT_TRUE(a && b);
  list.free(*a);
  EXPECT_EQ(list.allocate(unit), 0u);
  EXPECT_EQ(list.allocate(2 * unit), 4 * unit);  // one unit is left in front of b: too small
  EXPECT_EQ(list.allocate(unit), unit);
}

TEST(FreeList, RefusesWhatDoesNotFit) {
  FreeList list(4 * unit + 17);  // rounded down
  EXPECT_EQ(list.capacity(), 4 * unit);
  EXPECT_FALSE(list.allocate(4 * unit + 1));
  EXPECT_FALSE(list.allocate(static_cast<std::size_t>(-1)));
  EXPECT_TRUE(list.allocate(4 * unit));
  EXPECT_FALSE(list.allocate(1));
  FreeList nothing(unit - 1);
  EXPECT_FALSE(nothing.allocate(0));
  nothing.check_invariants();
}

TEST(FreeList, RefusesToFreeWhatIsNotAllocated) {
  FreeList list(4 * unit);
  const auto a = list.allocate(unit);
  ASSERT_TRUE(a);
  EXPECT_THROW(list.free(unit), InternalError);
  list.free(*a);
  EXPECT_THROW(list.free(*a), InternalError);
}

TEST(FreeList, KeepsItsInvariantsUnderRandomUse) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    FreeList list(200 * unit);
    std::map<std::size_t, std::size_t> live;  // offset -> bytes, rounded up
    std::size_t used = 0;
    for (int call = 0; call < 2000; ++call) {
      if (live.empty() || random() % 5 < 3) {
        const std::size_t bytes = 1 + random() % (20 * unit);
        const std::size_t rounded = (bytes + unit - 1) / unit * unit;
        const bool fits = list.largest_free_bytes() >= rounded;
        const auto offset = list.allocate(bytes);
        ASSERT_EQ(offset.has_value(), fits);
        if (!offset) continue;
        const auto after = live.upper_bound(*offset);
        if (after != live.end()) {
          ASSERT_LE(*offset + rounded, after->first);
        }
        if (after != live.begin()) {
          ASSERT_LE(std::prev(after)->first + std::prev(after)->second, *offset);
        }
        live.emplace(*offset, rounded);
        used += rounded;
      } else {
        auto victim = live.begin();
        std::advance(victim, random() % live.size());
        list.free(victim->first);
        used -= victim->second;
        live.erase(victim);
      }
      list.check_invariants();
      ASSERT_EQ(list.free_bytes(), 200 * unit - used);
      ASSERT_EQ(list.occupied_count(), live.size());
    }
    for (const auto& [offset, bytes] : live) list.free(offset);
    list.check_invariants();
    EXPECT_EQ(list.largest_free_bytes(), 200 * unit);
  }
}

TEST(DeviceHeap, GivesAddressesInsideTheSlab) {
  std::vector<std::byte> slab(8 * unit);
  DeviceHeap heap(slab.data(), slab.size());
  std::byte* a = heap.allocate(unit);
  std::byte* b = heap.allocate(7 * unit);
  EXPECT_EQ(a, slab.data());
  EXPECT_EQ(b, slab.data() + unit);
  EXPECT_EQ(heap.allocate(1), nullptr);
  heap.free(a);
  EXPECT_EQ(heap.allocate(unit), a);
  EXPECT_THROW(heap.free(slab.data() + 2 * unit), InternalError);
  heap.check_invariants();
}

}  // namespace free_list_test
}  // namespace tessera::heap
