// Large products in double precision on GPUs of compute capability 9.0, in place of cuBLAS's dgemm. They are faster
// where the GPU's power limit decides, which happens after some tenths of a second
// (docs/adr/0010-kernels-and-power.md).
//
// A thread block computes 128 x 128 elements of C. One of its warps lets the copy engine of the multiprocessor (TMA)
// fetch operands into shared memory, up to three stages of 32 of the sum ahead. Eight warps multiply by the tensor
// cores, each 64 x 32 elements; they wait for stages, but not for each other (dgemm_fragments.hpp has the layout).
// Nothing is allocated or shared between streams, and nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "calls/level3.hpp"
#include "device/device_profile.hpp"

namespace tessera::kernels::cuda {

/// The kernels on one GPU. submit() may be called from any thread.
class HopperDgemm {
 public:
  /// Loads the kernels for the current GPU. On a GPU of another architecture takes() is always false.
  cudaError_t load(int ordinal, const device::ProductCrossover& crossover);

  /// Whether the call is a product that these kernels can compute, and faster than cuBLAS (dgemm_choice.hpp).
  bool takes(const Level3& call) const;

  /// Submits the call to the stream: any product in double precision with 1 <= m, n, k <= 2^30, alpha != 0, and columns
  /// of A and B at multiples of 16 bytes.
  /// @pre load() found a GPU of the right architecture; it is current
  /// @return cudaErrorNotSupported if the driver cannot describe the operands to the copy engine; nothing was submitted
  /// then
  cudaError_t submit(const Level3& call, cudaStream_t stream) const;

  /// Submits the call if takes() and the driver allow it. @return nothing if cuBLAS is to compute it. @pre the GPU is
  /// current
  std::optional<cudaError_t> submit_if_taken(const Level3& call, cudaStream_t stream) const;

 private:
  index_t multiprocessors_ = 0;  // 0: no such GPU
  device::ProductCrossover crossover_;
};

}  // namespace tessera::kernels::cuda
