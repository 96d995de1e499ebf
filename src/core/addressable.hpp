// Overflow checks for the sizes, counts and strides that callers pass. If these checks pass, no product or sum of them
// overflows 64 bits. Every entry point that multiplies or sums such numbers calls them.
#pragma once

#include <cstddef>
#include <limits>

#include "core/scalar.hpp"

namespace tessera {

/// The number of elements of this size that 64-bit addresses reach.
constexpr index_t most_addressable(std::size_t element_bytes) {
  return std::numeric_limits<index_t>::max() / static_cast<index_t>(element_bytes);
}

/// The limit on the problems of a batch: the library stores up to this many bytes for each of them.
inline constexpr std::size_t most_problem_bytes = 256;
inline constexpr index_t most_problems = most_addressable(most_problem_bytes);

/// Whether `more` problems fit into a batch that has `problems`. @pre 0 <= problems <= most_problems
constexpr bool may_have_more(index_t problems, index_t more) { return more <= most_problems - problems; }

/// Whether a matrix with leading dimension `ld` is addressable. @pre no size is negative
constexpr bool is_addressable(index_t rows, index_t cols, index_t ld, std::size_t element_bytes) {
  if (rows == 0 || cols == 0) return true;
  const index_t most = most_addressable(element_bytes);
  return rows <= most && (cols == 1 || ld <= (most - rows) / (cols - 1));
}

/// Whether `count` matrices, each `stride` elements behind the one before, are addressable. @pre 0 <= count
constexpr bool is_addressable_stride(index_t stride, index_t count, std::size_t element_bytes) {
  if (count <= 1) return true;
  const index_t most = most_addressable(element_bytes) / (count - 1);
  return -most <= stride && stride <= most;
}

}  // namespace tessera
