// The readable product of 16-bit numbers, and batches of it. All others are compared with it.
#pragma once

#include "kernels/half_batch.hpp"

namespace tessera::kernels {

/// Checks the arguments of each problem, and computes the good ones. Sums have single precision, and add one product
/// after the other. alpha times the sum plus beta times C is rounded once. Complex products are four real ones.
void reference_half_batch(const HalfBatch& batch);

}  // namespace tessera::kernels
