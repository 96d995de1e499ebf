// Complex half precision, of half_batch.hpp.
#include "kernels/cuda/half_batch.cuh"

namespace tessera::kernels::cuda {

template cudaError_t submit_halves_of<HalfType::hc>(const HalfBatch&, const HalfLaunch&, cudaStream_t);
template cudaError_t load_half_kernels_of<HalfType::hc>();

}  // namespace tessera::kernels::cuda
