// The Machine of the block code for 16-bit numbers: a GPU's warps with the additions to gpu_warps.hpp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <concepts>
#include <cstdint>

#include "core/half.hpp"
#include "kernels/cuda/gpu_warps.hpp"

namespace tessera::kernels::cuda {

/// @tparam Warps those of a thread block, or a warp by itself
template <class Warps>
struct HalfWarps : Warps {
  template <HalfReal R>
  __device__ void multiply_halves(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) const {
    if constexpr (std::same_as<R, Half>) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }

  template <HalfReal R>
  __device__ void multiply_halves(float (&sums)[4], const std::uint32_t (&a)[2], const std::uint32_t (&b)[1]) const {
    if constexpr (std::same_as<R, Half>) {
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    }
  }

  __device__ float single(Half value) const { return __half2float(__ushort_as_half(value.bits)); }
  __device__ float single(BFloat16 value) const { return __uint_as_float(static_cast<unsigned>(value.bits) << 16); }
  template <HalfReal R>
  __device__ R rounded(float value) const {
    if constexpr (std::same_as<R, Half>)
      return {__half_as_ushort(__float2half_rn(value))};
    else
      return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
  }

  /// Fetches the line of a later load into the L2 cache.
  __device__ void prefetch(const void* address) const { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }
};

}  // namespace tessera::kernels::cuda
