// By which algorithm a GPU finds singular values. The polar one is made of products and an eigenvalue problem, where QR
// iteration turns vectors by one rotation after the other; but it costs more where only values are wanted, and where a
// singular value is next to nothing it must be repeated by the other one (SvdAlgorithm).
#pragma once

#include <algorithm>

#include "kernels/dense_solver.hpp"

namespace tessera::kernels::plan {

/// From this order on; below, launches are what both take. An estimate, to be replaced by what dense_bench measures
/// (its --svd setting forces either one).
inline constexpr index_t least_order_of_polar = 512;

inline SvdAlgorithm choose_svd(const DenseProblem& problem) {
  const bool has_vectors = problem.u != VectorJob::none || problem.vt != VectorJob::none;
  const bool is_large = std::min(problem.m, problem.n) >= least_order_of_polar;
  return has_vectors && is_large ? SvdAlgorithm::polar : SvdAlgorithm::qr_iteration;
}

}  // namespace tessera::kernels::plan
