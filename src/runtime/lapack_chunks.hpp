// Batches of LAPACK's routines as chunks see them (packing.hpp).
#pragma once

#include <memory>

#include "core/lapack_problems.hpp"
#include "runtime/batch_chunk.hpp"

namespace tessera::runtime {

/// @param batch outlives it @throws std::bad_alloc
std::unique_ptr<PackableBatch> packable(const LapackProblems& batch);

/// What the problem would take by itself. @pre it is in memory
index_t packed_bytes(const LapackProblems& batch, const LapackProblem& problem);

}  // namespace tessera::runtime
