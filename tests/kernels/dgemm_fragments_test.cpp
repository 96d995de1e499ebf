#include "kernels/block/dgemm_fragments.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace tessera {
namespace dgemm_fragments_test {

using kernels::block::DgemmFragments;

template <bool a, bool b>
struct Case : DgemmFragments<a, b> {
  static constexpr bool transposed_a = a, transposed_b = b;
};

template <class Fragments>
class Dgemm : public ::testing::Test {};
using Cases = ::testing::Types<Case<false, false>, Case<false, true>, Case<true, false>, Case<true, true>>;
TYPED_TEST_SUITE(Dgemm, Cases);

constexpr int warp = 32;

// mma.m16n8k16 as PTX specifies it, for register i:
//   A  row lane / 4 (+ 8 if i is odd), column lane % 4 + 4 (i / 2)
//   B  row lane % 4 + 4 i, column lane / 4
//   C  row lane / 4 (+ 8 if i >= 2), column 2 (lane % 4) + i % 2
TYPED_TEST(Dgemm, FragmentsMultiplyToTheProduct) {
  using F = TypeParam;
  std::array<int, 16 * 16> A{}, B{}, C{};  // op(A), op(B) and C by rows
  std::array<int, 16 * 16> stored_a{}, stored_b{};
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      const auto at = static_cast<std::size_t>(16 * i + j);
      A[at] = (i * 37 + j * 11) % 101;
      B[at] = (i * 23 + j * 53) % 97;
      // A line of a column-major operand is a column of op(A), unless A is transposed.
      stored_a[static_cast<std::size_t>(F::transposed_a ? F::offset(i, j) : F::offset(j, i)) / 8] = A[at];
      stored_b[static_cast<std::size_t>(F::transposed_b ? F::offset(i, j) : F::offset(j, i)) / 8] = B[at];
    }
  }
  for (int h = 0; h < 2; ++h) {
    std::array<std::array<int, 16>, 16> rows{};  // the instruction's 16 x 16 and 16 x 8
    std::array<std::array<int, 8>, 16> columns{};
    for (int lane = 0; lane < warp; ++lane) {
      const auto id = F::lane_of(lane);
      for (int j = 0; j < 4; ++j) {
        const auto sum = static_cast<std::size_t>(lane % 4 + 4 * j);
        for (int i = 0; i < 2; ++i)
          rows[static_cast<std::size_t>(lane / 4 + 8 * i)][sum] =
              stored_a[static_cast<std::size_t>(F::offset_in_a(id, j, i)) / 8];
        columns[sum][static_cast<std::size_t>(lane / 4)] =
            stored_b[static_cast<std::size_t>(F::offset_in_b(id, j, h)) / 8];
      }
    }
    for (int lane = 0; lane < warp; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const int column = 2 * (lane % 4) + i % 2;
        int sum = 0;
        for (std::size_t s = 0; s < 16; ++s)
          sum +=
              rows[static_cast<std::size_t>(lane / 4 + 8 * (i / 2))][s] * columns[s][static_cast<std::size_t>(column)];
        C[static_cast<std::size_t>(16 * F::row(lane / 4, i / 2) + F::column(column, h))] = sum;
      }
    }
  }
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 16; ++j) {
      int expected = 0;
      for (std::size_t s = 0; s < 16; ++s) expected += A[16 * i + s] * B[16 * s + j];
      EXPECT_EQ(C[16 * i + j], expected) << i << ", " << j;
    }
  }
}

TYPED_TEST(Dgemm, OffsetsAreReachedFromTwoThatAThreadKeeps) {
  using F = TypeParam;
  for (int number = 0; number < warp; ++number) {
    const auto lane = F::lane_of(number);
    for (int j = 0; j < 4; ++j) {
      for (int h = 0; h < 2; ++h) {
        const auto a = F::way_in_a(j, h);
        EXPECT_EQ((F::start_in_a(lane, a.start) ^ a.flip) + a.shift, F::offset_in_a(lane, j, h));
        const auto b = F::way_in_b(j, h);
        EXPECT_EQ((F::start_in_b(lane, b.start) ^ b.flip) + b.shift, F::offset_in_b(lane, j, h));
      }
    }
  }
}

// Shared memory serves 128 bytes at a time: eight lanes with loads of 16 bytes, or sixteen with 8.
TYPED_TEST(Dgemm, LoadsHaveNoBankConflicts) {
  using F = TypeParam;
  const auto expect_distinct_banks = [](bool pairs, const auto& offset_of) {
    const int bytes = pairs ? 16 : 8, lanes = 128 / bytes;
    for (int first = 0; first < warp; first += lanes) {
      std::set<int> banks;
      for (int lane = first; lane < first + lanes; ++lane) {
        EXPECT_EQ(offset_of(lane) % bytes, 0);
        banks.insert(offset_of(lane) % 128 / bytes);
      }
      EXPECT_EQ(static_cast<int>(banks.size()), lanes);
    }
  };
  for (int j = 0; j < 4; ++j) {
    for (int h = 0; h < 2; ++h) {
      if (!F::pairs_of_a || h == 0)
        expect_distinct_banks(F::pairs_of_a, [&](int lane) { return F::offset_in_a(F::lane_of(lane), j, h); });
      if (!F::pairs_of_b || j % 2 == 0)
        expect_distinct_banks(F::pairs_of_b, [&](int lane) { return F::offset_in_b(F::lane_of(lane), j, h); });
    }
  }
}

TYPED_TEST(Dgemm, PairsAreNeighbours) {
  using F = TypeParam;
  for (int number = 0; number < warp; ++number) {
    const auto lane = F::lane_of(number);
    for (int j = 0; j < 4; ++j) {
      if (F::pairs_of_a) {
        EXPECT_EQ(F::offset_in_a(lane, j, 1), F::offset_in_a(lane, j, 0) + 8);
      }
      for (int h = 0; h < 2; ++h) {
        if (F::pairs_of_b && j % 2 == 0) {
          EXPECT_EQ(F::offset_in_b(lane, j + 1, h), F::offset_in_b(lane, j, h) + 8);
        }
      }
    }
    EXPECT_EQ(F::row(lane.g, 1), F::row(lane.g, 0) + 1);
  }
}

}  // namespace dgemm_fragments_test
}  // namespace tessera
