// The readable product of 16-bit numbers, and batches of it. What every other one is compared with.
#pragma once

#include "kernels/half_batch.hpp"

namespace tessera::kernels {

/// Checks what is said of each problem, and computes those that are good: sums in single precision, one product after the
/// other, and one rounding of alpha times the sum plus beta times C. Complex products are four real ones.
void reference_half_batch(const HalfBatch& batch);

}  // namespace tessera::kernels
