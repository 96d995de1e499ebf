// Copies of matrices of any strides against the definition, element by element.
#include "core/matrix_copy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace tessera {
namespace matrix_copy_test {

/// How the elements of a matrix lie: which direction is the dense one, the elements between neighbours, and which ends come first.
struct Lie {
  bool by_rows = true;
  std::int64_t step = 1;
  std::int64_t padding = 0;
  bool backward_rows = false, backward_columns = false;
};

/// A matrix in memory of its own, of bytes that no copy writes.
class Laid {
 public:
  Laid(std::int64_t rows, std::int64_t columns, std::size_t element_bytes, const Lie& lie)
      : element_(static_cast<std::int64_t>(element_bytes)) {
    const std::int64_t dense = lie.by_rows ? columns : rows, others = lie.by_rows ? rows : columns;
    const std::int64_t along = lie.step * element_, across = (dense * lie.step + lie.padding) * element_;
    bytes.assign(static_cast<std::size_t>(across * others), std::byte{0xa5});
    matrix.row_stride = lie.by_rows ? across : along;
    matrix.column_stride = lie.by_rows ? along : across;
    matrix.address = bytes.data();
    turn(lie.backward_rows, rows, matrix.row_stride);
    turn(lie.backward_columns, columns, matrix.column_stride);
  }
  std::byte* at(std::int64_t i, std::int64_t j) const {
    return matrix.address + i * matrix.row_stride + j * matrix.column_stride;
  }

  std::vector<std::byte> bytes;
  StridedMatrix matrix;

 private:
  void turn(bool backward, std::int64_t count, std::int64_t& stride) {
    if (!backward || count == 0) return;
    matrix.address += (count - 1) * stride;
    stride = -stride;
  }
  std::int64_t element_;
};

bool is_copied(CopiedPart part, std::int64_t i, std::int64_t j) {
  return part == CopiedPart::full || (part == CopiedPart::lower ? j <= i : j >= i);
}

void expect_copy(std::int64_t rows, std::int64_t columns, std::size_t element_bytes, const Lie& from, const Lie& to,
                 CopiedPart part, bool conjugates, int processors) {
  const Laid source(rows, columns, element_bytes, from);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::size_t byte = 0; byte < element_bytes; ++byte)
        source.at(i, j)[byte] =
            static_cast<std::byte>(1 + (i * 131 + j * 17 + static_cast<std::int64_t>(byte) * 7) % 120);
    }
  }
  Laid expected(rows, columns, element_bytes, to);
  const Laid target(rows, columns, element_bytes, to);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      if (!is_copied(part, i, j)) {
        std::memset(expected.at(i, j), 0, element_bytes);
        continue;
      }
      std::memcpy(expected.at(i, j), source.at(i, j), element_bytes);
      if (conjugates) expected.at(i, j)[element_bytes - 1] ^= std::byte{0x80};  // the sign of the imaginary part
    }
  }
  copy_matrix({rows, columns, element_bytes, conjugates, part, source.matrix, target.matrix}, processors);
  EXPECT_EQ(target.bytes, expected.bytes)
      << rows << " x " << columns << " of " << element_bytes << ", part " << static_cast<int>(part) << ", from rows "
      << from.by_rows << " step " << from.step << ", to rows " << to.by_rows << " step " << to.step;
}

const std::vector<Lie>& lies() {
  static const std::vector<Lie> all = {
      {true}, {false}, {true, 1, 3}, {false, 1, 5}, {true, 2, 1, true}, {false, 3, 0, false, true}};
  return all;
}

TEST(MatrixCopy, IsTheDefinitionInEveryDirectionAndPart) {
  for (const auto& [rows, columns] : {std::pair{0, 4}, {1, 1}, {5, 3}, {16, 16}, {67, 130}, {130, 67}}) {
    for (const Lie& from : lies()) {
      for (const Lie& to : lies()) {
        for (const CopiedPart part : {CopiedPart::full, CopiedPart::lower, CopiedPart::upper}) {
          for (const std::size_t element_bytes : {1, 2, 4, 8, 16})
            expect_copy(rows, columns, element_bytes, from, to, part, false, 2);
          for (const std::size_t element_bytes : {8, 16})
            expect_copy(rows, columns, element_bytes, from, to, part, true, 2);
        }
      }
    }
  }
}

TEST(MatrixCopy, OfManyBandsIsWhole) {
  for (const bool by_rows : {true, false}) expect_copy(1201, 999, 8, {by_rows}, {!by_rows}, CopiedPart::full, false, 5);
  expect_copy(2000, 700, 16, {true}, {true, 1, 7}, CopiedPart::upper, true, 3);
}

TEST(MatrixCopy, OfAnElementThatAllShareFillsTheTarget) {
  const std::vector<double> one = {3.5};
  std::vector<double> target(35);
  auto* const from = reinterpret_cast<std::byte*>(const_cast<double*>(one.data()));
  copy_matrix(
      {.rows = 5, .columns = 7, .from = {from, 0, 0}, .to = {reinterpret_cast<std::byte*>(target.data()), 56, 8}}, 2);
  EXPECT_EQ(target, std::vector<double>(35, 3.5));
}

/// A stack of matrices side by side in memory, as rows or as columns, is the stack of their copies.
TEST(MatrixCopy, OfAStackIsThatOfEachMatrix) {
  for (const auto& [count, m, n] :
       {std::array<std::int64_t, 3>{0, 4, 4}, {1, 9, 5}, {7, 1, 1}, {300, 3, 5}, {40, 70, 33}, {3, 400, 300}}) {
    for (const CopiedPart part : {CopiedPart::full, CopiedPart::lower, CopiedPart::upper}) {
      for (const bool turns : {false, true}) {
        std::vector<std::int32_t> from(static_cast<std::size_t>(count * m * n));
        std::iota(from.begin(), from.end(), 1);
        std::vector<std::int32_t> to(from.size()), expected(from.size());
        const auto stack = [&](std::vector<std::int32_t>& of, bool by_rows) {
          return StridedMatrix{reinterpret_cast<std::byte*>(of.data()), by_rows ? n * 4 : 4, by_rows ? 4 : m * 4,
                               m * n * 4};
        };
        MatrixCopy copy{m, n, 4, false, part, stack(from, true), stack(expected, !turns)};
        for (std::int64_t s = 0; s < count; ++s) {
          copy_matrix(copy, 1);
          for (StridedMatrix* const each : {&copy.from, &copy.to}) each->address += each->matrix_stride;
        }
        copy_matrix({m, n, 4, false, part, stack(from, true), stack(to, !turns), count}, 3);
        EXPECT_EQ(to, expected) << count << " of " << m << " x " << n;
      }
    }
  }
}

}  // namespace matrix_copy_test
}  // namespace tessera
