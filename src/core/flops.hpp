// Floating-point operation counts as everybody reports them (LAPACK Working Note 41).
#pragma once

#include "core/scalar.hpp"

namespace tessera {

/// An m x k by k x n product: 2mnk real operations, four times as many in complex arithmetic.
constexpr double gemm_flops(ScalarType type, index_t m, index_t n, index_t k) {
  return (is_complex(type) ? 8.0 : 2.0) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

}  // namespace tessera
