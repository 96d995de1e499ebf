// Marks of code that is compiled for the GPU and, without them, for the host, whose unit tests run it.
#pragma once

#if defined(__CUDACC__)
#define TESSERA_DEVICE __device__ __forceinline__
#define TESSERA_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TESSERA_DEVICE
#define TESSERA_HOST_DEVICE
#endif
// Without it arrays are indexed by variables and leave the registers. The host's compilers do not know it.
#if defined(__CUDA_ARCH__)
#define TESSERA_UNROLL _Pragma("unroll")
#define TESSERA_NO_UNROLL _Pragma("unroll 1")
#else
#define TESSERA_UNROLL
#define TESSERA_NO_UNROLL
#endif
