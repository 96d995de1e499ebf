// Large products in double precision on GPUs of compute capability 9.0, in place of cuBLAS's dgemm: quicker where the power limit of the GPU
// decides, which it does after some tenths of a second (docs/adr/0010-kernels-and-power.md).
//
// A thread block computes 128 x 128 elements of C. One of its warps has the copy engine of the multiprocessor (TMA) fetch operands into shared
// memory, up to three stages of 32 of the sum ahead; eight multiply by the tensor cores, each 64 x 32 elements, and wait for stages, not for each other
// (dgemm_fragments.hpp says who takes what). Nothing is allocated, shared between streams, or waited for.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "core/level3.hpp"
#include "device/device_profile.hpp"

namespace tessera::kernels::cuda {

/// Of one GPU. submit() may be called from any thread.
class HopperDgemm {
 public:
  /// Loads the kernels for the GPU, which is current. Where it is not one that they are made for, takes() is always false.
  cudaError_t load(int ordinal, const device::ProductCrossover& crossover);

  /// Whether a call is a product that these kernels can do and do better than cuBLAS (dgemm_choice.hpp).
  bool takes(const Level3& call) const;

  /// Submits the call, any product in double precision with 1 <= m, n, k <= 2^30, alpha != 0, and columns of A and B at multiples of 16 bytes,
  /// to the stream. @pre load() found such a GPU; it is current
  /// @return cudaErrorNotSupported if the driver does not describe the operands to the copy engine; then nothing was submitted
  cudaError_t submit(const Level3& call, cudaStream_t stream) const;

  /// Submits the call if takes() and the driver allow it. @return nothing where cuBLAS is to do it. @pre the GPU is current
  std::optional<cudaError_t> submit_if_taken(const Level3& call, cudaStream_t stream) const;

 private:
  index_t multiprocessors_ = 0;  // 0: no such GPU
  device::ProductCrossover crossover_;
};

}  // namespace tessera::kernels::cuda
