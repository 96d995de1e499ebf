// What 64-bit addresses reach of what callers describe: no product or sum of sizes, counts and strides that pass these
// checks leaves 64 bits. All entry points that multiply or sum such numbers check.
#pragma once

#include <cstddef>
#include <limits>

#include "core/scalar.hpp"

namespace tessera {

/// Elements of so many bytes.
constexpr index_t most_addressable(std::size_t element_bytes) {
  return std::numeric_limits<index_t>::max() / static_cast<index_t>(element_bytes);
}

/// Problems of a batch, of each of which we note up to so many bytes.
inline constexpr std::size_t most_problem_bytes = 256;
inline constexpr index_t most_problems = most_addressable(most_problem_bytes);

/// Whether a batch of so many problems may have more. @pre 0 <= problems <= most_problems
constexpr bool may_have_more(index_t problems, index_t more) { return more <= most_problems - problems; }

/// A matrix with columns so far apart. @pre no size is negative
constexpr bool is_addressable(index_t rows, index_t cols, index_t ld, std::size_t element_bytes) {
  if (rows == 0 || cols == 0) return true;
  const index_t most = most_addressable(element_bytes);
  return rows <= most && (cols == 1 || ld <= (most - rows) / (cols - 1));
}

/// Matrices so many elements apart, from the first to the last. @pre 0 <= count
constexpr bool is_addressable_stride(index_t stride, index_t count, std::size_t element_bytes) {
  if (count <= 1) return true;
  const index_t most = most_addressable(element_bytes) / (count - 1);
  return -most <= stride && stride <= most;
}

}  // namespace tessera
