// Many products of matrices with 16-bit elements, or pairs of them (core/half.hpp), in the memory of one device. Sums
// and factors have single precision.
//
//   C = alpha op(A) op(B) + beta C    each element of it is computed in single precision, and rounded once
#pragma once

#include "core/half.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels {

struct HalfBatch {
  /// The type of the elements in memory. Distances and leading dimensions count these elements.
  HalfType stored = HalfType::h;
  /// The rest, as a batch of gemm. Its type is that of factors and sums: s, or c for complex elements.
  Level3Batch products = {};
};

/// The type of factors and sums.
constexpr ScalarType sums_of(HalfType stored) { return is_complex(stored) ? ScalarType::c : ScalarType::s; }

}  // namespace tessera::kernels
