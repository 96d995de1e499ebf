// Many products of matrices whose elements are stored in 16 bits a number (core/half.hpp), with sums and factors in
// single precision, on matrices in the memory of one device.
//
//   C = alpha op(A) op(B) + beta C    each element of it computed in single, and rounded once
#pragma once

#include "core/half.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels {

struct HalfBatch {
  /// Of the elements in memory, of which distances and leading dimensions are so many.
  HalfType stored = HalfType::h;
  /// All else. A gemm; its type is that of factors and sums: s, or c for complex elements.
  Level3Batch products = {};
};

/// What factors and sums are.
constexpr ScalarType sums_of(HalfType stored) { return is_complex(stored) ? ScalarType::c : ScalarType::s; }

}  // namespace tessera::kernels
