// Triangular solves of a tile, in place of cuBLAS's trsm. That one needs 0.34 us per row of the triangle however few the
// right-hand sides are (H200), 16 TFLOP/s for 4096 rows and 2048 right-hand sides in double, where its gemm computes at 54 to 58.
//
// The triangle is halved down to leaves (trsm_recursion.hpp), the products between them are gemm's, and a leaf is one
// launch of a kernel that solves a strip of right-hand sides per thread block (trsm_strip.hpp). Backward stable like
// substitution; no block is inverted. Nothing is allocated, shared between streams, or waited for.
#pragma once

#include <cuda_runtime_api.h>

#include "core/level3.hpp"

namespace tessera::kernels::cuda {

/// Rows of the triangle that one launch solves: a warp per 16 of them, compiled into the kernel. Complex double has
/// four times the arithmetic and twice the registers per element.
constexpr index_t trsm_leaf_rows(ScalarType type) { return type == ScalarType::z ? 128 : 256; }

/// Submits op_a(A) X = alpha C, or X op_a(A) = alpha C, X in the place of C, to the stream.
/// @pre m, n >= 1; the triangle has at most trsm_leaf_rows(type) rows; the stream's GPU is current
/// @param shared_bytes of load_trsm_kernels() on that GPU
/// @param most_narrow_columns right-hand sides up to which strips are narrow, see DeviceProfile
cudaError_t solve_leaf(const Level3& call, cudaStream_t stream, int shared_bytes, index_t most_narrow_columns);

/// Loads the kernels for the current GPU, and allows them the shared memory that they need there.
/// @param[out] shared_bytes what a thread block of this GPU may have
cudaError_t load_trsm_kernels(int& shared_bytes);

}  // namespace tessera::kernels::cuda
