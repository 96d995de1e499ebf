// The division of a Cholesky factorization of one tile: small blocks on the diagonal, and Level 3 for the rest, which
// is most of it. Right-looking: factor a block, solve for the panel beside it, update the triangle behind both (LAPACK
// Users' Guide, section 5).
#pragma once

#include <algorithm>

#include "calls/level3.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels::plan {

/// Order of a block: updates of this depth run at a good rate, and the factorization of one block alone is short.
inline constexpr index_t cholesky_block = 256;

/// The Level-3 calls behind the block of so many rows and columns at (first, first): the panel's solve, and the update.
struct BehindBlock {
  Level3 solve, update;
};
inline BehindBlock behind_block(const TileFactorization& tile, index_t first, index_t size) {
  const bool is_lower = tile.uplo == Uplo::lower;
  const Op adjoint = is_complex(tile.type) ? Op::conj_trans : Op::trans;
  const auto element = static_cast<index_t>(element_bytes(tile.type));
  const auto at = [&](index_t i, index_t j) { return static_cast<std::byte*>(tile.A) + (i + j * tile.lda) * element; };
  const index_t behind = first + size, rest = tile.n - behind;
  std::byte* const panel = is_lower ? at(behind, first) : at(first, behind);
  return {.solve = {.routine = Routine::trsm,
                    .type = tile.type,
                    .side = is_lower ? Side::right : Side::left,
                    .uplo = tile.uplo,
                    .op_a = adjoint,
                    .m = is_lower ? rest : size,
                    .n = is_lower ? size : rest,
                    .A = at(first, first),
                    .lda = tile.lda,
                    .C = panel,
                    .ldc = tile.lda},
          .update = {.routine = is_complex(tile.type) ? Routine::herk : Routine::syrk,
                     .type = tile.type,
                     .uplo = tile.uplo,
                     .op_a = is_lower ? Op::no_trans : adjoint,
                     .m = rest,
                     .n = rest,
                     .k = size,
                     .alpha = -1,
                     .A = panel,
                     .lda = tile.lda,
                     .beta = 1,
                     .C = at(behind, behind),
                     .ldc = tile.lda}};
}

/// Calls factor(first, size) for the blocks, and compute(call) between them, while factor() returns true.
template <class Factor, class Compute>
void factor_in_blocks(const TileFactorization& tile, index_t block, Factor factor, Compute compute) {
  for (index_t first = 0; first < tile.n; first += block) {
    const index_t size = std::min(block, tile.n - first);
    if (!factor(first, size) || first + size == tile.n) return;
    const BehindBlock behind = behind_block(tile, first, size);
    compute(behind.solve);
    compute(behind.update);
  }
}

}  // namespace tessera::kernels::plan
