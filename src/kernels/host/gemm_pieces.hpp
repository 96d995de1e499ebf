// Divides a product whose dimensions do not fit a BLAS with narrow integers into products that do. It only computes
// addresses and sizes.
#pragma once

#include <algorithm>

#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

/// Calls `call(piece)` for pieces with m, n, k <= limit whose sum is the product. m and n are divided. Along k the
/// first piece has beta, and the others add to it. m, n, k may be 0 (k == 0 still scales C). Leading dimensions stay as
/// they are. Pieces along k of one block of C come in order.
template <class Call>
void for_each_gemm_piece(const Level3& product, index_t limit, Call&& call) {
  const auto bytes = static_cast<index_t>(element_bytes(product.type));
  const auto at = [](const void* matrix, index_t offset) -> const void* {
    return static_cast<const std::byte*>(matrix) + offset;
  };
  for (index_t j = 0; j < product.n; j += limit) {
    for (index_t i = 0; i < product.m; i += limit) {
      index_t l = 0;
      do {
        Level3 piece = product;
        piece.m = std::min(limit, product.m - i);
        piece.n = std::min(limit, product.n - j);
        piece.k = std::min(limit, product.k - l);
        // Without a product X and Y are not read, and need not exist.
        if (product.k > 0) {
          piece.A = at(product.A, (product.op_a == Op::no_trans ? i + l * product.lda : l + i * product.lda) * bytes);
          piece.B = at(product.B, (product.op_b == Op::no_trans ? l + j * product.ldb : j + l * product.ldb) * bytes);
        }
        piece.C = static_cast<std::byte*>(product.C) + (i + j * product.ldc) * bytes;
        if (l > 0) piece.beta = 1;
        call(static_cast<const Level3&>(piece));
        l += limit;
      } while (l < product.k);
    }
  }
}

}  // namespace tessera::kernels
