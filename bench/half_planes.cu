#include "bench/half_planes.hpp"

namespace tessera::bench {
namespace {

constexpr unsigned threads = 256;

__global__ void part(unsigned short* re, unsigned short* im, const unsigned* from, index_t elements) {
  for (index_t i = index_t{blockIdx.x} * threads + threadIdx.x; i < elements; i += index_t{gridDim.x} * threads) {
    const unsigned both = from[i];
    re[i] = static_cast<unsigned short>(both);
    im[i] = static_cast<unsigned short>(both >> 16);
  }
}

__global__ void merge(unsigned* to, const unsigned short* re, const unsigned short* im, index_t elements) {
  for (index_t i = index_t{blockIdx.x} * threads + threadIdx.x; i < elements; i += index_t{gridDim.x} * threads)
    to[i] = re[i] | static_cast<unsigned>(im[i]) << 16;
}

unsigned blocks_of(index_t elements) {
  const index_t blocks = (elements + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 65535 ? blocks : 65535);
}

}  // namespace

cudaError_t part_into_planes(void* re, void* im, const void* from, index_t elements, cudaStream_t stream) {
  part<<<blocks_of(elements), threads, 0, stream>>>(static_cast<unsigned short*>(re), static_cast<unsigned short*>(im),
                                                    static_cast<const unsigned*>(from), elements);
  return cudaGetLastError();
}

cudaError_t merge_planes(void* to, const void* re, const void* im, index_t elements, cudaStream_t stream) {
  merge<<<blocks_of(elements), threads, 0, stream>>>(static_cast<unsigned*>(to), static_cast<const unsigned short*>(re),
                                                     static_cast<const unsigned short*>(im), elements);
  return cudaGetLastError();
}

}  // namespace tessera::bench
