// Checks a Level-3 result without computing it twice: some hundred entries, corners and random ones, against inner
// products in extended precision. For trsm they are entries of the residual op(A) X - alpha B (or X op(A) - alpha B).
//
// An entry is right if |c - c_ref| <= 8 sqrt(k+2) u (|alpha| sum |x||y| + |beta||c_old|), times 2 sqrt(2) for complex
// types, where k is the number of products in the sum: Higham and Mary, "A New Approach to Probabilistic Rounding Error
// Analysis" (2019), with lambda = 8, which random data exceeds with a probability below 1e-13. The same bound, with
// |A||X| as the sum, holds for the residual of a triangular solve; solvers that invert diagonal blocks keep it for well
// conditioned A (condition_triangle()). An entry that the routine must not write (the opposite triangle of a rank
// update) is right if it has not changed.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "calls/level3.hpp"

namespace tessera::tools {

class EntryCheck {
 public:
  /// Chooses entries and, unless the routine is trsm, computes their inner products. A and B must not change
  /// afterwards; for trmm and trsm, B is the operand as it was before the call.
  EntryCheck(const Level3& call, int entries);

  /// Stores the old values of C. Must be called before every run.
  void remember();
  /// Largest error over its bound; above 1 (or infinite, for NaN) the result is wrong.
  double worst_error();

 private:
  using Value = std::complex<long double>;
  struct Entry {
    std::int64_t i = 0, j = 0;
    Value product;              ///< alpha times the inner product; of rank-2k updates: both terms. trsm: without alpha
    long double magnitude = 0;  ///< the same of absolute values
    Value old;                  ///< trsm: of B
  };

  /// Whether the routine writes this entry of C.
  bool written(const Entry& entry) const;
  void compute_products();

  Level3 call_;
  std::int64_t inner_ = 0;  ///< products in the sum of an entry
  std::vector<Entry> entries_;
};

}  // namespace tessera::tools
