// Half precision, of half_batch.hpp.
#include "kernels/cuda/half_batch.cuh"

namespace tessera::kernels::cuda {

template cudaError_t submit_halves_of<HalfType::h>(const HalfBatch&, const HalfLaunch&, cudaStream_t);
template cudaError_t load_half_kernels_of<HalfType::h>();

}  // namespace tessera::kernels::cuda
