// Checks a product without computing it twice: some hundred entries of C, corners and random ones, against inner products in
// extended precision.
//
// An entry is right if |c - c_ref| <= 8 sqrt(k+2) u (|alpha| sum |a||b| + |beta||c_old|), times 2 sqrt(2) for complex types:
// Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis" (2019), with lambda = 8, which random data
// exceeds with a probability below 1e-13.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "bench/cuda_peers.h"

namespace tessera::tools {

class EntryCheck {
 public:
  /// Chooses entries and computes their inner products; A and B must not change afterwards.
  EntryCheck(const tessera_bench_gemm_call& call, int entries);

  /// Keeps the old values of C. Before every product.
  void remember(const tessera_bench_gemm_call& call);
  /// Largest error over its bound; above 1 (or infinite, for NaN) the product is wrong.
  double worst_error(const tessera_bench_gemm_call& call) const;

 private:
  using Value = std::complex<long double>;
  struct Entry {
    std::int64_t i = 0, j = 0;
    Value product;              ///< sum over l of op(A)(i,l) op(B)(l,j)
    long double magnitude = 0;  ///< the same of absolute values
    Value old;
  };
  std::vector<Entry> entries_;
};

}  // namespace tessera::tools
