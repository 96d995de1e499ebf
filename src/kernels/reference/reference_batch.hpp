// The readable batch: one problem after the other, by the readable Level-3 BLAS. All others are compared with it.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/level3_batch.hpp"

namespace tessera::kernels {

/// A problem of the batch as a call of its own. @pre its arrays are in memory that the host reads
Level3 problem_of(const Level3Batch& batch, index_t problem);

/// Checks the arguments of each problem, and calls compute(problem) for the good ones.
/// @param element_bytes size of the matrices' elements
void for_each_good_problem(const Level3Batch& batch, std::size_t element_bytes,
                           const std::function<void(const Level3&)>& compute);

/// Checks the arguments of each problem, and computes the good ones.
void reference_level3_batch(const Level3Batch& batch);

}  // namespace tessera::kernels
