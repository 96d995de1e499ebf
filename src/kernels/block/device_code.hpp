// Macros that mark GPU code. Without a CUDA compiler they are empty, and unit tests run the code on the host.
#pragma once

#if defined(__CUDACC__)
#define TESSERA_DEVICE __device__ __forceinline__
#define TESSERA_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TESSERA_DEVICE
#define TESSERA_HOST_DEVICE
#endif
// Without unrolling, variables index the arrays, which then leave the registers. Host compilers do not know the pragma.
#if defined(__CUDA_ARCH__)
#define TESSERA_UNROLL _Pragma("unroll")
#define TESSERA_NO_UNROLL _Pragma("unroll 1")
#else
#define TESSERA_UNROLL
#define TESSERA_NO_UNROLL
#endif
