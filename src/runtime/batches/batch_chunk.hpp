// A piece of a batch on its way to a device: problems of one form, their matrices packed behind each other, and what
// the device has to know of them. One copy takes it up, one takes the results down.
//
//   | sizes and addresses | what is read | what is updated | what is written, info | workspace |
//   |<------------------------ goes up ------------------>|
//                                        |<----------- comes down ----------->|
//
// A description tells what a problem consists of. packing.hpp makes a PackableBatch of it: gemm_chunks.hpp has that of
// gemm, lapack_chunks.hpp that of LAPACK's routines. Pure functions; the device's memory is a number here.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "core/scalar.hpp"
#include "kernels/lapack_batch.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::runtime {

/// Problems [first, last) of a batch, all of one form.
struct Chunk {
  index_t first = 0;
  index_t last = 0;
  bool fits = true;  ///< else it is one problem that is larger than a chunk may be

  index_t count() const { return last - first; }
};

/// A chunk as it has been packed.
struct PackedChunk {
  index_t up_bytes = 0;       ///< from the beginning
  index_t results_first = 0;  ///< bytes
  index_t results_bytes = 0;
  double flops = 0;
  std::variant<kernels::Level3Batch, kernels::LapackBatch> batch;  ///< in the device's memory
  kernels::Workspace workspace;                                    ///< there, too
};

/// A batch of host memory, as the code that carries it through devices sees it. Its creator keeps the problems.
class PackableBatch {
 public:
  virtual ~PackableBatch() = default;

  virtual index_t size() const = 0;
  /// "dgemm_batch"
  virtual std::string name() const = 0;
  /// The name of the kernel, for traces; the string stays valid.
  virtual const char* kernel_name() const = 0;
  /// Of the problems [first, last).
  virtual double flops(index_t first, index_t last) const = 0;
  /// Bytes of the problem as a chunk by itself.
  virtual index_t packed_bytes(index_t problem) const = 0;
  /// Cuts the batch into chunks of at most so many bytes, each as large as may be. @throws std::bad_alloc
  virtual std::vector<Chunk> cut(index_t most_bytes) const = 0;
  /// Packs the chunk. @param to memory for as many bytes as it takes @param on_device where it will lie there
  /// @pre it fits, and no size exceeds 2^31 - 1
  virtual PackedChunk pack(const Chunk& chunk, std::byte* to, std::byte* on_device) const = 0;
  /// Writes the results into the caller's matrices, and nothing beside them. @param from where the chunk was packed,
  /// with what the device has computed
  virtual void unpack(const Chunk& chunk, const PackedChunk& packed, const std::byte* from) const = 0;
};

/// Computes the problems [first, last) of a batch on the calling thread and whatever threads it starts.
using HostBatchCompute = std::function<void(index_t first, index_t last)>;

}  // namespace tessera::runtime
