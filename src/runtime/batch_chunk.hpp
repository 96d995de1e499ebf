// A piece of a batch on its way to a device: products of one form, their matrices packed behind each other, and what
// the device has to know of them. One copy takes it up, one takes the results down.
//
//   | sizes and addresses | A and B of each product, unless it has its predecessor's | C of each: the results |
//
// Columns are packed tight, every matrix begins at a multiple of 16 bytes. C goes up only where it is read. A matrix
// that neighbours share, A or B, is packed once. Pure functions; the device's memory is a number here.
#pragma once

#include <cstddef>
#include <vector>

#include "core/gemm_batch.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::runtime {

/// Products [first, last) of a batch, all of one form.
struct Chunk {
  index_t first = 0;
  index_t last = 0;
  bool fits = true;  ///< else it is one product that is larger than a chunk may be

  index_t count() const { return last - first; }
};

/// Bytes that so many products take, as they are added one by one.
class ChunkBytes {
 public:
  explicit ChunkBytes(ScalarType type) : element_(static_cast<index_t>(element_bytes(type))) {}

  /// Adds the next one. @pre it does not only scale
  void add(const ProductForm& form, const Product& product);

  index_t header() const;   ///< sizes and addresses
  index_t results() const;  ///< where these begin
  index_t all() const { return results() + results_; }

 private:
  index_t element_;
  index_t count_ = 0;
  index_t operands_ = 0;
  index_t results_ = 0;
  const Product* former_ = nullptr;
};

/// What the product would take by itself.
index_t packed_bytes(ScalarType type, const ProductForm& form, const Product& product);

/// Cuts the batch into chunks of at most so many bytes, each as large as may be.
std::vector<Chunk> cut_into_chunks(const GemmBatch& batch, index_t most_bytes);

/// What came of packing a chunk.
struct PackedChunk {
  index_t up_bytes = 0;       ///< from the beginning
  index_t results_first = 0;  ///< bytes
  index_t results_bytes = 0;
  double flops = 0;
  kernels::Level3Batch batch;  ///< in the device's memory
};

/// Packs the chunk. @param to memory for as many bytes as it takes @param on_device where it will lie there
/// @pre it fits, and no size exceeds 2^31 - 1
PackedChunk pack(const GemmBatch& batch, const Chunk& chunk, std::byte* to, std::byte* on_device);

/// Writes the results into the caller's matrices, and nothing beside them. @param from where the chunk was packed, with
/// what the device has computed
void unpack(const GemmBatch& batch, const Chunk& chunk, const PackedChunk& packed, const std::byte* from);

}  // namespace tessera::runtime
