// The division of triangles for the GPU's copy kernel: every byte of the triangle once, none outside, wide accesses
// aligned.
#include "device/cuda/triangle_runs.hpp"

#include <gtest/gtest.h>

#include "device/device.hpp"

namespace tessera {
namespace triangle_runs_test {

using device::TriangleCut;
using device::cuda::column_beside_rectangle;
using device::cuda::ColumnRun;
using device::cuda::narrow_bytes;
using device::cuda::rectangle_column;
using device::cuda::triangle_column;
using device::cuda::wide_bytes;
using device::cuda::wide_run;
using device::cuda::WideRun;

TEST(TriangleRuns, ColumnsAreThoseOfTheExtent) {
  for (const index_t element_bytes : {1, 4, 8, 16}) {
    for (const index_t order : {1, 2, 7, 33}) {
      for (const Part part : {Part::lower, Part::upper}) {
        const device::Extent extent{order * element_bytes, order, part, element_bytes};
        index_t bytes = 0;
        for (index_t j = 0; j < order; ++j) {
          const ColumnRun run = triangle_column(part == Part::lower, extent.column_bytes, element_bytes, j);
          EXPECT_EQ(run.first, extent.first_byte(j));
          EXPECT_EQ(run.last, extent.last_byte(j));
          bytes += run.last - run.first;
        }
        EXPECT_EQ(bytes, extent.bytes());
      }
    }
  }
}

TEST(TriangleRuns, ColumnsBeyondTheBlockAreEmpty) {
  // A column beyond the rows of its block has no row of the lower triangle, and all rows of the upper one.
  const ColumnRun lower = triangle_column(true, 16, 8, 3);
  EXPECT_GE(lower.first, lower.last);
  EXPECT_EQ(triangle_column(false, 16, 8, 3).last, 16);
}

void expect_rectangles_and_the_rest(const TriangleCut& cut) {
  const auto [strip_columns, least_rectangle_bytes] = cut;
  for (const index_t element_bytes : {4, 8, 16}) {
    const index_t least_order = strip_columns + least_rectangle_bytes / element_bytes;
    const index_t first_upper = least_order - strip_columns;  // the first column above which there is a rectangle
    for (const index_t order :
         {index_t{1}, first_upper, first_upper + 1, least_order - 1, least_order, 2 * least_order + 5}) {
      for (const bool lower : {true, false}) {
        SCOPED_TRACE(::testing::Message() << order << " of " << element_bytes << (lower ? " lower" : " upper"));
        const index_t column_bytes = order * element_bytes;
        index_t rectangles = 0;
        for (index_t j = 0; j < order; ++j) {
          const ColumnRun column = triangle_column(lower, column_bytes, element_bytes, j);
          const ColumnRun rectangle = rectangle_column(cut, lower, column_bytes, element_bytes, j);
          const ColumnRun beside = column_beside_rectangle(cut, lower, column_bytes, element_bytes, j);
          if (rectangle.first >= rectangle.last) {
            ASSERT_EQ(beside.first, column.first);
            ASSERT_EQ(beside.last, column.last);
            continue;
          }
          ++rectangles;
          ASSERT_GE(rectangle.last - rectangle.first, least_rectangle_bytes);
          ASSERT_EQ(rectangle.first, lower ? beside.last : 0);
          ASSERT_EQ(rectangle.last, lower ? column_bytes : beside.first);
          ASSERT_EQ(beside.first, lower ? column.first : rectangle.last);
          ASSERT_EQ(beside.last, lower ? rectangle.first : column.last);
          ASSERT_LT(beside.first, beside.last);  // the diagonal
          // All columns of a strip have the same rectangle.
          const ColumnRun of_strip =
              rectangle_column(cut, lower, column_bytes, element_bytes, j / strip_columns * strip_columns);
          ASSERT_EQ(rectangle.first, of_strip.first);
          ASSERT_EQ(rectangle.last, of_strip.last);
        }
        EXPECT_EQ(rectangles > 0, lower ? order >= least_order : order > first_upper);
      }
    }
  }
}

TEST(TriangleRuns, RectanglesAndWhatIsBesideThemAreTheTriangle) {
  for (const TriangleCut& cut : {device::gpu_profile(9, 0).triangle_cut, TriangleCut{64, 2048}, TriangleCut{1, 16}})
    expect_rectangles_and_the_rest(cut);
}

TEST(TriangleRuns, WideRunsCoverEverythingAndAreAligned) {
  for (std::uintptr_t to = 256; to < 256 + 32; ++to) {
    for (std::uintptr_t from = 512; from < 512 + 32; ++from) {
      for (index_t bytes = 1; bytes < 70; ++bytes) {
        SCOPED_TRACE(::testing::Message() << to << " <- " << from << ", " << bytes);
        const WideRun run = wide_run(to, from, bytes);
        const index_t tail = bytes - run.head - run.body;
        ASSERT_GE(run.head, 0);
        ASSERT_GE(run.body, 0);
        ASSERT_GE(tail, 0);
        ASSERT_EQ(run.body % wide_bytes, 0);
        if (to % wide_bytes != from % wide_bytes) {
          ASSERT_EQ(run.head, bytes);
          continue;
        }
        ASSERT_LT(run.head, wide_bytes);
        ASSERT_LT(tail, wide_bytes);
        if (run.head < bytes) {
          ASSERT_EQ((to + static_cast<std::uintptr_t>(run.head)) % wide_bytes, 0u);
          ASSERT_EQ((from + static_cast<std::uintptr_t>(run.head)) % wide_bytes, 0u);
        }
      }
    }
  }
}

TEST(TriangleRuns, NarrowAccessesFitEveryAddress) {
  EXPECT_EQ(narrow_bytes(0), 8);
  EXPECT_EQ(narrow_bytes(4096 | 8), 8);
  EXPECT_EQ(narrow_bytes(4096 | 16), 8);
  EXPECT_EQ(narrow_bytes(4096 | 8 | 4), 4);
  EXPECT_EQ(narrow_bytes(4096 | 8 | 2), 1);
  EXPECT_EQ(narrow_bytes(4096 | 13), 1);
}

}  // namespace triangle_runs_test
}  // namespace tessera
