// Batches of products of one size by cuBLAS, where it is faster (plan/vendor_batches.hpp).
#pragma once

#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::cuda {

/// Whether cuBLAS supports the batch with the semantics of the BLAS: the sizes are known to the host, and there is a
/// product.
bool vendor_has(const Level3Batch& batch);

/// Submits the batch. Never waits, and allocates nothing. @pre vendor_has(batch); handle and stream of `to` are set
cublasStatus_t submit_vendor_products(const Level3Batch& batch, const Submission& to);

}  // namespace tessera::kernels::cuda
