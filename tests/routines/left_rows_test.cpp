// The rows of L to the left of LU panels: moved beside devices, undone, and moved in the end, they are those of one
// interchange after the other.
#include "routines/left_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <complex>
#include <cstdint>
#include <random>
#include <vector>

#include "core/side_by_side.hpp"

namespace tessera::routines {
namespace left_rows_test {

/// Panels of a matrix whose pivots are drawn.
template <Scalar T>
class Factors {
 public:
  Factors(index_t m, index_t n, index_t width, unsigned seed) : m_(m), n_(n), ld_(m + 3) {
    std::mt19937 random(seed);
    A.resize(static_cast<std::size_t>(ld_ * n));
    for (T& element : A) element = T(static_cast<decltype(std::abs(T{}))>(random() % 1000));
    const index_t least = std::min(m, n);
    tails_.reserve(static_cast<std::size_t>(least));
    for (index_t first = 0; first < least; first += width) {
      const index_t columns = std::min(width, least - first);
      auto& tail = tails_.emplace_back(kernels::tail_bytes(kernels::PanelKind::lu, scalar_type_of<T>(), columns) / 4);
      panels.push_back({kernels::PanelKind::lu, scalar_type_of<T>(), m - first, columns, A.data() + first * (ld_ + 1),
                        ld_, tail.data()});
      const kernels::PivotTail pivots = kernels::pivot_tail(panels.back());
      for (index_t i = 0; i < columns; ++i)
        pivots.pivots[i] =
            static_cast<std::int32_t>(i + 1 + static_cast<index_t>(random() % static_cast<unsigned>(m - first - i)));
    }
  }

  /// As LAPACK's laswp does it, by the panels before `end`.
  std::vector<T> interchanged(std::vector<T> of, std::size_t end) const {
    index_t first = 0;
    for (std::size_t p = 0; p < end; ++p) {
      const std::int32_t* const pivots = kernels::pivot_tail(panels[p]).pivots;
      for (index_t i = 0; i < panels[p].n; ++i) {
        for (index_t j = 0; j < first; ++j)
          std::swap(of[static_cast<std::size_t>(j * ld_ + first + i)],
                    of[static_cast<std::size_t>(j * ld_ + first + pivots[i] - 1)]);
      }
      first += panels[p].n;
    }
    return of;
  }

  std::vector<T> A;
  std::vector<kernels::Panel> panels;

 private:
  index_t m_, n_, ld_;
  std::vector<std::vector<std::int32_t>> tails_;
};

template <class T>
class LeftRowsOf : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(LeftRowsOf, Types);

TYPED_TEST(LeftRowsOf, AreInterchangedAtTheEnd) {
  unsigned seed = 1;
  for (const auto& [m, n, width] : std::vector<std::array<index_t, 3>>{
           {1, 1, 1}, {20, 20, 20}, {90, 70, 8}, {70, 90, 16}, {130, 128, 64}, {40, 40, 3}}) {
    Factors<TypeParam> factors(m, n, width, seed++);
    const auto expected = factors.interchanged(factors.A, factors.panels.size());
    for (const int processors : {1, 3}) {
      Factors<TypeParam> again(m, n, width, seed - 1);
      LeftRows(again.panels, processors).finish();
      EXPECT_EQ(again.A, expected) << m << " x " << n;
    }
  }
}

// Panels come home one after the other.
TYPED_TEST(LeftRowsOf, AreInterchangedAsPanelsCome) {
  constexpr index_t n = 90, width = 8;
  Factors<TypeParam> factors(n + 5, n, width, 7);
  const auto before = factors.A;
  const auto expected = factors.interchanged(before, factors.panels.size());
  LeftRows rows(factors.panels, 4);
  index_t moves = 0;
  for (runtime::TaskId home = 0; home <= static_cast<runtime::TaskId>(factors.panels.size()); ++home) {
    const auto is_home = [home](runtime::TaskId task) { return task < home; };
    for (;;) {
      const auto last = factors.A;
      const auto written = rows.do_some(is_home);
      if (!written) break;
      ++moves;
      // Nothing else has been written, and of columns to the left of panels that are at home alone.
      auto* const first = reinterpret_cast<const std::byte*>(factors.A.data());
      for (std::size_t e = 0; e < last.size(); ++e) {
        const auto at = static_cast<index_t>(e * sizeof(TypeParam)) - (written->block.address - first);
        const index_t pitch = written->block.pitch_bytes;
        const bool is_told =
            at >= 0 && at / pitch < written->extent.columns && at % pitch < written->extent.column_bytes;
        if (!is_told) {
          ASSERT_EQ(factors.A[e], last[e]) << e;
        }
      }
    }
    if (home < 5) {
      EXPECT_EQ(moves, 0) << "too few of those to come";
    }
  }
  EXPECT_GT(moves, 8);
  EXPECT_NE(factors.A, before);
  rows.finish();
  EXPECT_EQ(factors.A, expected);
  rows.finish();
  EXPECT_EQ(factors.A, expected) << "nothing is left";
}

TYPED_TEST(LeftRowsOf, AreWhatTheyWereWhenUndone) {
  constexpr index_t n = 90, width = 8;
  for (const runtime::TaskId home : {0, 5, 9, 12}) {
    Factors<TypeParam> factors(n + 5, n, width, 9);
    const auto before = factors.A;
    LeftRows rows(factors.panels, 4);
    const auto is_home = [home](runtime::TaskId task) { return task < home; };
    while (rows.do_some(is_home)) {
    }
    EXPECT_EQ(factors.A != before, home > 4) << home;
    rows.undo();
    EXPECT_EQ(factors.A, before);
    rows.finish();
    EXPECT_EQ(factors.A, factors.interchanged(before, factors.panels.size()));
  }
}

TYPED_TEST(LeftRowsOf, AreMovedBySeveralThreads) {
  constexpr index_t n = 400, width = 16;
  Factors<TypeParam> factors(n, n, width, 11);
  const auto expected = factors.interchanged(factors.A, factors.panels.size());
  LeftRows rows(factors.panels, 8);
  std::atomic<runtime::TaskId> home = 0;
  const runtime::HostPart::IsHome is_home = [&](runtime::TaskId task) { return task < home.load(); };
  side_by_side(5, [&](std::size_t thread) {
    for (int time = 0; time < 200; ++time) {
      if (thread == 0 && home.load() < static_cast<runtime::TaskId>(factors.panels.size())) ++home;
      static_cast<void>(rows.do_some(is_home));
    }
  });
  rows.finish();
  EXPECT_EQ(factors.A, expected);
}

TEST(LeftRows, AreWorthThreadsWhereThereAreMany) {
  Factors<double> few(200, 200, 8, 1), wide(1500, 1500, 500, 1), many(1500, 1500, 100, 1);
  EXPECT_EQ(LeftRows(few.panels, 8).threads(), 0U);
  EXPECT_EQ(LeftRows(wide.panels, 8).threads(), 0U) << "too few panels";
  EXPECT_EQ(LeftRows(many.panels, 8).threads(), 2U);
  EXPECT_EQ(LeftRows(many.panels, 2).threads(), 1U);
  EXPECT_EQ(LeftRows(many.panels, 16).threads(), 2U);
  EXPECT_EQ(LeftRows(many.panels, 1).threads(), 0U);
}

}  // namespace left_rows_test
}  // namespace tessera::routines
