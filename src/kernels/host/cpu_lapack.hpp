// LAPACK's routines on the CPU, one problem at a time. They use the LAPACK that comes with the CPU BLAS (OpenBLAS has
// one), its products and solves, and the readable reference for missing routines.
//
// Threads of ours compute many problems side by side. The BLAS must then not start its own threads for one problem,
// which would wait for each other at the end of each step. OpenBLAS uses only the calling thread for products up to
// 64^3, triangles with less than 8 rows or right-hand sides, Cholesky below 64, narrow panels of LU, and solves by its
// factors with one right-hand side. Larger problems are composed of these here, by halves (Toledo, Locality of reference
// in LU decomposition with partial pivoting, 1997).
#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "calls/lapack_problems.hpp"
#include "calls/level3.hpp"
#include "kernels/host/symbol_scheme.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

class CpuBlas;

/// The Fortran entry points of a library's LAPACK, by ScalarType; nullptr: there is none.
struct LapackFunctions {
  using OfType = std::array<void*, 4>;
  OfType potrf{}, potri{}, getrf{}, getrs{}, getri{};
  int integer_bits = 32;

  /// @param handle of dlopen()
  static LapackFunctions find(void* handle, const SymbolScheme& scheme, int integer_bits);
};

/// Inverses of larger order use the threads of the BLAS: side by side, each would need another matrix.
inline constexpr index_t most_order_of_shared_inverse = 256;

/// Bytes that a thread needs beside the problem, for any CPU BLAS.
std::size_t lapack_space_bytes(Routine routine, ScalarType type, index_t n);

/// Computes the problem at once.
/// @param blas nullptr: the reference computes all of it
/// @param on_one_thread the BLAS must not start threads
/// @param space lapack_space_bytes(), aligned to 64 bytes
/// @return LAPACK's info. A NaN is found even if the library does not look for one
/// @throws std::bad_alloc in getri, if blas lacks it. Thread-safe.
int run_lapack(const CpuBlas* blas, const LapackProblems& batch, const LapackProblem& problem, bool on_one_thread,
               std::byte* space);

/// Factors the tile at once, in host memory. The readable reference factors small blocks, and compute(call) does the
/// rest.
/// @return its info; tile.info is not set. Thread-safe
int factor_tile(const TileFactorization& tile, const std::function<void(const Level3&)>& compute);

}  // namespace tessera::kernels
