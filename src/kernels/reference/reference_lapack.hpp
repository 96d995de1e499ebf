// The readable batch of LAPACK's routines: one problem after the other, by unblocked loops in the precision of its
// type. All others are compared with it. It follows LAPACK 3.12 in which elements are read and written, in pivots and
// in info.
#pragma once

#include "kernels/lapack_batch.hpp"

namespace tessera::kernels {

/// Checks the arguments of each problem, and computes the good ones. @pre all data is in host memory
void reference_lapack_batch(const LapackBatch& batch);

/// The steps that kernels compute one after the other, with triangular solves of other kernels between. A step leaves
/// out the problems that an earlier one has ended, according to info.
enum class LapackStep : std::uint8_t {
  check,          ///< checks arguments only
  factor,         ///< checks arguments, and factors the good matrices
  solve,          ///< solves with the factors
  interchange,    ///< interchanges rows of B as those of A; backwards if op transposes
  begin_inverse,  ///< checks arguments, finds a zero on the factor's diagonal, and sets B to the identity
  end_inverse     ///< copies B, or its triangle, to A
};
void reference_lapack_step(const LapackBatch& batch, LapackStep step);

}  // namespace tessera::kernels
