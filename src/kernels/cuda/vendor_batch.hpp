// Batches of products of one size by cuBLAS, where that is sooner (plan/vendor_batches.hpp).
#pragma once

#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::cuda {

/// Whether cuBLAS has the batch, and computes it as the BLAS does: sizes that are known here, and a product to compute.
bool vendor_has(const Level3Batch& batch);

/// Submits it. Never waits, and allocates nothing. @pre vendor_has(batch); handle and stream of `to` are set
cublasStatus_t submit_vendor_products(const Level3Batch& batch, const Submission& to);

}  // namespace tessera::kernels::cuda
