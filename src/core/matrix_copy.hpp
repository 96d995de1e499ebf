// Copies of matrices of any strides in host memory, by all processors: transposed, conjugated, a triangle alone, stacks of them.
//
// A copy is cut into bands of its targets' rows or columns. Where source and target run in different directions, a band is copied
// in squares as wide as a cache line, so that every line is read and written once and whole.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/scalar.hpp"

namespace tessera {

/// A stack of matrices of any strides. Element (i, j) of matrix s lies at address + i * row_stride + j * column_stride +
/// s * matrix_stride, in bytes; strides may be negative or, of a source, zero.
struct StridedMatrix {
  std::byte* address = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  std::int64_t matrix_stride = 0;
};

/// The part that is copied. A triangle has the diagonal, and the rest of the target becomes zero.
enum class CopiedPart : std::uint8_t { full, lower, upper };

struct MatrixCopy {
  std::int64_t rows = 0, columns = 0;
  std::size_t element_bytes = 8;  ///< 1, 2, 4, 8 or 16
  /// Elements become their conjugates; they are pairs of float (8 bytes) or double (16 bytes).
  bool conjugates = false;
  CopiedPart part = CopiedPart::full;
  StridedMatrix from, to;
  std::int64_t count = 1;  ///< of matrices
};

/// @param processors that may take part, the caller's included; fewer do where the copy is small
/// @pre elements of source and target do not overlap
void copy_matrix(const MatrixCopy& copy, int processors);

}  // namespace tessera
