// LAPACK's routines on the CPU, one problem at a time: by the LAPACK that comes with the CPU BLAS (OpenBLAS has one), by
// its products and solves, and by the readable reference for what it lacks.
//
// Many problems are computed side by side by threads of ours. Then the BLAS must not start its own for one of them,
// which would meet at the end of each step: OpenBLAS leaves products up to 64^3, triangles with less than 8 rows or
// right-hand sides, Cholesky below 64 and narrow panels of LU to the calling thread, and all else is made of these here,
// by halves (Toledo, Locality of reference in LU decomposition with partial pivoting, 1997).
#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "core/lapack_problems.hpp"
#include "core/level3.hpp"
#include "kernels/host/symbol_scheme.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

class CpuBlas;

/// The Fortran entry points of the LAPACK in a library, by ScalarType; nullptr: it has none.
struct LapackFunctions {
  using OfType = std::array<void*, 4>;
  OfType potrf{}, potri{}, getrf{}, getri{};
  int integer_bits = 32;

  /// @param handle of dlopen()
  static LapackFunctions find(void* handle, const SymbolScheme& scheme, int integer_bits);
};

/// Inverses of larger order are left to the threads of the BLAS: side by side each would need a matrix more.
inline constexpr index_t most_order_of_shared_inverse = 256;

/// What a thread needs beside the problem, whatever the CPU BLAS.
std::size_t lapack_space_bytes(LapackRoutine routine, ScalarType type, index_t n);

/// Computes the problem now. @param blas nullptr: the reference does all of it
/// @param on_one_thread the BLAS must not start threads @param space lapack_space_bytes(), aligned to 64 bytes
/// @return LAPACK's info; of a NaN, too, where the library does not look for one
/// @throws std::bad_alloc in getri, if blas lacks it. Thread-safe.
int run_lapack(const CpuBlas* blas, const LapackProblems& batch, const LapackProblem& problem, bool on_one_thread,
               std::byte* space);

/// Factors the tile now, in host memory: small blocks by the readable reference, the rest by compute(call), whoever that is.
/// @return its info, which is not set. Thread-safe
int factor_tile(const TileFactorization& tile, const std::function<void(const Level3&)>& compute);

}  // namespace tessera::kernels
