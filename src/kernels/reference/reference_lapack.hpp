// The readable batch of LAPACK's routines: one problem after the other, by unblocked loops in the precision of its type.
// What every other one is compared with. Follows LAPACK 3.12 in what is read and written, in pivots and in info.
#pragma once

#include "kernels/lapack_batch.hpp"

namespace tessera::kernels {

/// Checks what is said of each, and computes those that are good. @pre all of it is in memory of the host
void reference_lapack_batch(const LapackBatch& batch);

}  // namespace tessera::kernels
