// The division of a triangle between copy engines and the kernel, and of its columns into wide memory accesses. Pure
// arithmetic, compiled for the GPU and for tests.
#pragma once

#include "core/scalar.hpp"
#include "device/device_profile.hpp"

#if defined(__CUDACC__)
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif

namespace tessera::device::cuda {

inline constexpr index_t wide_bytes = 16;  ///< size of a thread's widest access

/// Bytes [first, last) of column j that belong to the triangle; empty if first >= last.
struct ColumnRun {
  index_t first = 0;
  index_t last = 0;
};
TESSERA_HOST_DEVICE constexpr ColumnRun triangle_column(bool lower, index_t column_bytes, index_t element_bytes,
                                                        index_t j) {
  if (lower) return {j * element_bytes, column_bytes};
  const index_t end = (j + 1) * element_bytes;
  return {0, end < column_bytes ? end : column_bytes};
}

/// A triangle is divided into strips of so many columns, from the first column on. The rows that all columns of a strip
/// share form a rectangle. Copy engines can copy it, if its columns are long enough for them. Bytes [first, last) of
/// column j that belong to the rectangle of its strip; empty if there is none.
TESSERA_HOST_DEVICE constexpr ColumnRun rectangle_column(const TriangleCut& cut, bool lower, index_t column_bytes,
                                                         index_t element_bytes, index_t j) {
  const index_t diagonal = (j & ~(cut.strip_columns - 1)) * element_bytes;
  const index_t first = lower ? diagonal + cut.strip_columns * element_bytes : 0;
  const index_t last = lower || column_bytes < diagonal ? column_bytes : diagonal;
  if (last - first < cut.least_rectangle_bytes) return {};
  return {first, last};
}

/// Bytes [first, last) of column j of the triangle that belong to no rectangle; empty if first >= last.
TESSERA_HOST_DEVICE constexpr ColumnRun column_beside_rectangle(const TriangleCut& cut, bool lower,
                                                                index_t column_bytes, index_t element_bytes,
                                                                index_t j) {
  const ColumnRun run = triangle_column(lower, column_bytes, element_bytes, j);
  const ColumnRun rectangle = rectangle_column(cut, lower, column_bytes, element_bytes, j);
  if (rectangle.first >= rectangle.last) return run;
  return lower ? ColumnRun{run.first, rectangle.first} : ColumnRun{rectangle.last, run.last};
}

/// A run of `bytes` as head + body + tail. Both ends of the body are aligned to wide accesses on both sides, and head
/// and tail are shorter than one access each. If the two sides are aligned differently there is no body, and the head
/// is the whole run.
struct WideRun {
  index_t head = 0;
  index_t body = 0;
};
TESSERA_HOST_DEVICE constexpr WideRun wide_run(std::uintptr_t to, std::uintptr_t from, index_t bytes) {
  if (((to ^ from) & (wide_bytes - 1)) != 0) return {bytes, 0};
  const auto up_to_aligned = static_cast<index_t>((0 - to) & (wide_bytes - 1));
  const index_t head = up_to_aligned < bytes ? up_to_aligned : bytes;
  return {head, (bytes - head) / wide_bytes * wide_bytes};
}

/// The largest access of 8, 4 or 1 bytes that suits every address of a triangle. @param bits all addresses, pitches and
/// the element size, combined by OR
constexpr int narrow_bytes(std::uintptr_t bits) { return bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 1; }

}  // namespace tessera::device::cuda

#undef TESSERA_HOST_DEVICE
