// Batches of gemm as chunks see them (packing.hpp).
#pragma once

#include <memory>

#include "calls/gemm_batch.hpp"
#include "runtime/batches/batch_chunk.hpp"

namespace tessera::runtime {

/// @param batch outlives it; no product only scales @throws std::bad_alloc
std::unique_ptr<PackableBatch> packable(const GemmBatch& batch);

/// Bytes of the product as a chunk by itself.
index_t packed_bytes(ScalarType type, const ProductForm& form, const Product& product);

}  // namespace tessera::runtime
