// Complex bfloat16, of half_batch.hpp.
#include "kernels/cuda/half_batch.cuh"

namespace tessera::kernels::cuda {

template cudaError_t submit_halves_of<HalfType::bfc>(const HalfBatch&, const HalfLaunch&, cudaStream_t);
template cudaError_t load_half_kernels_of<HalfType::bfc>();

}  // namespace tessera::kernels::cuda
