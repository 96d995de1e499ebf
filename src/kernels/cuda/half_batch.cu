#include "kernels/cuda/half_batch.hpp"

namespace tessera::kernels::cuda {

cudaError_t submit_halves(const HalfBatch& batch, const HalfLaunch& launch, cudaStream_t stream) {
  return dispatch(batch.stored, [&]<class E>(E) { return submit_halves_of<half_type_of<E>()>(batch, launch, stream); });
}

cudaError_t load_half_kernels() {
  for (const HalfType type : half_types) {
    const cudaError_t error = dispatch(type, []<class E>(E) { return load_half_kernels_of<half_type_of<E>()>(); });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace tessera::kernels::cuda
