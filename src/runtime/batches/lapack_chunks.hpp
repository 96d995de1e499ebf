// Batches of LAPACK's routines as chunks see them (packing.hpp).
#pragma once

#include <memory>

#include "calls/lapack_problems.hpp"
#include "runtime/batches/batch_chunk.hpp"

namespace tessera::runtime {

/// @param batch outlives it @throws std::bad_alloc
std::unique_ptr<PackableBatch> packable(const LapackProblems& batch);

/// Bytes of the problem as a chunk by itself. @pre it is in memory
index_t packed_bytes(const LapackProblems& batch, const LapackProblem& problem);

}  // namespace tessera::runtime
