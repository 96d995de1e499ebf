// The readable batch of LAPACK's routines: one problem after the other, by unblocked loops in the precision of its type.
// What every other one is compared with. Follows LAPACK 3.12 in what is read and written, in pivots and in info.
#pragma once

#include "kernels/lapack_batch.hpp"

namespace tessera::kernels {

/// Checks what is said of each, and computes those that are good. @pre all of it is in memory of the host
void reference_lapack_batch(const LapackBatch& batch);

/// What kernels make of it one after the other, where another one has solved between. Problems that an earlier step has
/// ended, which info says, are left out.
enum class LapackStep : std::uint8_t {
  check,          ///< arguments alone
  factor,         ///< arguments, and the factors of those that are good
  solve,          ///< with the factors
  interchange,    ///< rows of B as they were of A; backwards where op transposes
  begin_inverse,  ///< arguments, a zero on the diagonal of the factor, and the identity in B
  end_inverse     ///< B, or the triangle of it, to A
};
void reference_lapack_step(const LapackBatch& batch, LapackStep step);

}  // namespace tessera::kernels
