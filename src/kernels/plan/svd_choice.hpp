// The algorithm by which a GPU finds singular values. The polar algorithm consists of products and an eigenvalue
// problem. QR iteration transforms vectors by one rotation after the other. One H200, double, square, ms, polar and QR:
//   with vectors  5 and 19 (256), 14 and 45 (500), 31 and 122 (1000), 266 and 1627 (4000), 1180 and 9203 (8000)
//   values only   14 and 28 (500), 29 and 60 (1000), 248 and 561 (4000), 1061 and 2322 (8000)
// If a singular value is almost zero the polar result must be computed again by QR iteration (SvdAlgorithm).
#pragma once

#include <algorithm>

#include "kernels/dense_solver.hpp"

namespace tessera::kernels::plan {

/// The least order for the polar algorithm. Smaller ones were not measured.
inline constexpr index_t least_order_of_polar = 256;

inline SvdAlgorithm choose_svd(const LapackCall& problem) {
  return std::min(problem.m, problem.n) >= least_order_of_polar ? SvdAlgorithm::polar : SvdAlgorithm::qr_iteration;
}

}  // namespace tessera::kernels::plan
