// The work of LAPACK's calls and of batches (calls/work.hpp has that of Level 3).
#pragma once

#include "calls/gemm_batch.hpp"
#include "calls/lapack_call.hpp"
#include "calls/lapack_problems.hpp"
#include "calls/work.hpp"

namespace tessera::offload {

/// Cheap: small calls pay for it. @pre sizes are good
Work work_of(const LapackCall& call);

/// Of the problems [first, last). @pre no product is larger than is_batched() allows (batch_parts.hpp)
Work work_of(const GemmBatch& batch, index_t first, index_t last);
Work work_of(const LapackProblems& batch, index_t first, index_t last);

}  // namespace tessera::offload
