// Batches of small matrices in the interleaved layout: element (i, j) of matrix b lies at A[(j * n + i) * stride + b],
// so that the threads of a warp, one for each matrix, read and write what lies side by side. Factors of such matrices,
// in registers, and the ways between this layout and the usual one, where matrices lie one behind the other.
//
// Source: section 4.5 of the paper on very small matrices (Haidar, Abdelfattah, Zounon, Tomov, Dongarra).
#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "bench/lapack_batch_cases.hpp"
#include "core/scalar.hpp"

namespace tessera::bench {

inline constexpr std::array<int, 8> interleaved_orders = {2, 4, 6, 8, 10, 12, 14, 16};
/// How many threads may have a matrix, each of them every so many-th column.
inline constexpr std::array<int, 3> interleaved_teams = {1, 2, 4};

/// Matrices b < stride, all of which are factored: those behind the last one are to have numbers, too.
template <class R>
struct InterleavedBatch {
  index_t stride = 0;     ///< a multiple of 32
  R* A = nullptr;         ///< of Cholesky's the lower triangle alone is read and written
  int* pivots = nullptr;  ///< LU: pivot i of matrix b at pivots[i * stride + b]
  int* info = nullptr;    ///< of each matrix, as LAPACK's
};

/// getrf or potrf of the lower triangle in place, on so many threads for each matrix.
template <class R>
cudaError_t factor_interleaved(BatchRoutine routine, int n, int threads, const InterleavedBatch<R>& batch,
                               cudaStream_t stream);
/// Registers and local memory of that kernel.
template <class R>
cudaError_t resources_of_factor(BatchRoutine routine, int n, int threads, cudaFuncAttributes* resources);

/// What the routine reads of `count` matrices, from the usual layout.
template <class R>
cudaError_t interleave(BatchRoutine routine, int n, R* to, index_t stride, const R* from, index_t count,
                       cudaStream_t stream);
/// What it has written goes back: matrices, and n pivots of each.
template <class R>
cudaError_t put_back(BatchRoutine routine, int n, R* to, const R* from, index_t stride, index_t count,
                     cudaStream_t stream);
cudaError_t put_back_pivots(int n, int* to, const int* from, index_t stride, index_t count, cudaStream_t stream);

}  // namespace tessera::bench
