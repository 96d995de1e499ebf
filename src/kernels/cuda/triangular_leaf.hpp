// Triangular solves, and triangular products in place, with few rows of the triangle: one launch with a strip of
// right-hand sides per thread block (block/trsm_strip.hpp, block/trmm_strip.hpp). Larger calls are cut into these and
// products (plan/triangular_recursion.hpp). Solves are backward stable like substitution; no block is inverted. Nothing
// is allocated or shared between streams, and nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <iterator>

#include "calls/level3.hpp"

namespace tessera::kernels::cuda {

/// Rows of the triangle per launch: one warp per 16 of them, compiled into the kernels. Complex double has four times
/// the arithmetic and twice the registers per element. Narrow strips in single precision need half of the registers.
constexpr index_t triangular_leaf_rows(ScalarType type, int strip_columns) {
  if (type == ScalarType::z) return 128;
  return type == ScalarType::s && strip_columns == 8 ? 512 : 256;
}

/// Columns of the widest strips for which the GPU's thread blocks have enough shared memory, by type.
using WidestStrips = std::array<int, std::size(scalar_types)>;

/// Submits a trsm, or a trmm whose B is its C, to the stream.
/// @pre m, n >= 1; the triangle has at most triangular_leaf_rows() rows; the stream's GPU is current
/// @param strip_columns of plan::strip_widths, at most those of the widest strips
cudaError_t submit_leaf(const Level3& call, cudaStream_t stream, int strip_columns);

/// Loads the kernels for the current GPU, and allows them the shared memory that they need there.
cudaError_t load_leaf_kernels(WidestStrips& widest);

}  // namespace tessera::kernels::cuda
