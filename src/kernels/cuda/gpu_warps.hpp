// The Machine of the block code (kernels/block) on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/block/solved_blocks.hpp"

namespace tessera::kernels::cuda {

#if __CUDA_ARCH__ < 900
__device__ inline void multiply_8x4x8(double (&c)[2], double a, double b) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(c[0]), "+d"(c[1])
               : "d"(a), "d"(b));
}
#endif

template <int width>
struct GpuLanes;

/// The threads of a block. The hardware's barriers 1 and 2 are barriers 0 and 1 here; its barrier 0 is __syncthreads().
struct GpuWarps {
  /// Whether a wait for some warps is a meeting of all warps, in which warps without a part must join, too.
  static constexpr bool all_meet = false;
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int warp() const { return static_cast<int>(threadIdx.x) / 32; }
  __device__ void sync_warp() const { __syncwarp(); }
  // Barrier numbers must be constants. Otherwise the compiler reserves all 16 barriers for every block.
  __device__ void arrive(int barrier, int warps) const {
    // Makes the warp's writes visible to the warps that wait. It is cheaper than __threadfence_block(), which orders
    // more.
    asm volatile("fence.acq_rel.cta;" ::: "memory");
    if (barrier == 0) {
      asm volatile("bar.arrive 1, %0;" ::"r"(32 * warps) : "memory");
    } else {
      asm volatile("bar.arrive 2, %0;" ::"r"(32 * warps) : "memory");
    }
  }
  __device__ void await(int barrier, int warps) const {
    __syncwarp();
    if (barrier == 0) {
      asm volatile("bar.sync 1, %0;" ::"r"(32 * warps) : "memory");
    } else {
      asm volatile("bar.sync 2, %0;" ::"r"(32 * warps) : "memory");
    }
  }
  __device__ void meet() const { __syncthreads(); }
  using OneWarp = GpuLanes<32>;  ///< a warp of the block, by itself
  template <class R>
  __device__ R shuffle(R value, int lane) const {
    return __shfl_sync(0xffffffffU, value, lane);
  }
  /// Lets the compiler generate global loads and stores rather than generic ones.
  template <class E>
  __device__ E* in_global(E* pointer) const {
    __builtin_assume(__isGlobal(pointer));
    return pointer;
  }
  /// Returns the same value, about which the compiler knows nothing: it cannot compute with it in advance.
  __device__ int made_anew(int value) const {
    asm volatile("" : "+r"(value));
    return value;
  }
  __device__ std::int64_t made_anew(std::int64_t value) const {
    asm volatile("" : "+l"(value));
    return value;
  }
  __device__ bool any(bool value) const { return __any_sync(0xffffffffU, value) != 0; }
  __device__ int first_lane(bool value) const { return __ffs(static_cast<int>(__ballot_sync(0xffffffffU, value))) - 1; }
  __device__ int place_of_largest(std::uint32_t key, int place) const {
    const bool is_largest = key == __reduce_max_sync(0xffffffffU, key);
    return __reduce_min_sync(0xffffffffU, is_largest ? place : 0x7fffffff);
  }
  __device__ int place_of_largest(std::uint64_t key, int place) const {
    const auto high = static_cast<unsigned>(key >> 32), low = static_cast<unsigned>(key);
    const bool may_be = high == __reduce_max_sync(0xffffffffU, high);
    const unsigned lowest = __reduce_max_sync(0xffffffffU, may_be ? low : 0U);
    return __reduce_min_sync(0xffffffffU, may_be && low == lowest ? place : 0x7fffffff);
  }
  __device__ int marks_set(const block::Mark* marks, int most, block::Mark value) const {
    block::Mark mark = value - 1;
    if (lane() < most)
      asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(mark) : "l"(marks + lane()) : "memory");
    const unsigned others = __ballot_sync(0xffffffffU, mark != value);
    __syncwarp();  // makes the writes that one lane has acquired visible to all lanes
    return others == 0 ? 32 : __ffs(static_cast<int>(others)) - 1;
  }
  __device__ void set_mark(block::Mark* mark, block::Mark value) const {
    __syncwarp();
    if (lane() == 0) asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(mark), "l"(value) : "memory");
  }
  template <int most, class E>
  __device__ void copy_async(E* to, const E* from, int count) const {
    constexpr int all = most * static_cast<int>(sizeof(E));
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = count * static_cast<int>(sizeof(E));
    if constexpr (all == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(address), "l"(from), "r"(bytes), "n"(all)
                   : "memory");
    }
  }
  __device__ void end_of_batch() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int batches>
  __device__ void await_batches() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(batches) : "memory");
  }
  __device__ void multiply(double (&upper)[2], double (&lower)[2], const double (&a)[2][4],
                           const double (&b)[4]) const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
        "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(upper[0]), "+d"(upper[1]), "+d"(lower[0]), "+d"(lower[1])
        : "d"(a[0][0]), "d"(a[1][0]), "d"(a[0][1]), "d"(a[1][1]), "d"(a[0][2]), "d"(a[1][2]), "d"(a[0][3]),
          "d"(a[1][3]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      multiply_8x4x8(upper, a[0][s], b[s]);
      multiply_8x4x8(lower, a[1][s], b[s]);
    }
#endif
  }
};

/// The same with one barrier for all warps: compute-sanitizer's racecheck does not understand barriers of fewer warps.
/// Warps reach this barrier from different places of the code, which __syncthreads() does not allow.
struct MeetingWarps : GpuWarps {
  static constexpr bool all_meet = true;
  __device__ void arrive(int /*barrier*/, int /*warps*/) const { meet(); }
  __device__ void await(int /*barrier*/, int /*warps*/) const { meet(); }
  __device__ void meet() const { asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x) : "memory"); }
};

/// A part of a warp with a problem of its own, as if it were a block of that many threads.
template <int width>
struct GpuLanes {
  static constexpr bool all_meet = true;
  GpuLanes() = default;
  explicit __device__ GpuLanes(const GpuWarps& /*of a block: its warp*/) {}

  __device__ int thread() const { return lane(); }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % width; }
  __device__ int warp() const { return 0; }
  __device__ void meet() const { __syncwarp(mask()); }
  __device__ void sync_warp() const { __syncwarp(mask()); }
  template <class R>
  __device__ R shuffle(R value, int lane) const {
    return __shfl_sync(mask(), value, lane, width);
  }
  template <class E>
  __device__ E* in_global(E* pointer) const {
    __builtin_assume(__isGlobal(pointer));
    return pointer;
  }
  template <class Number>
  __device__ Number made_anew(Number value) const {
    return GpuWarps().made_anew(value);
  }
  template <int most, class E>
  __device__ void copy_async(E* to, const E* from, int count) const {
    GpuWarps().copy_async<most>(to, from, count);
  }
  __device__ void end_of_batch() const { GpuWarps().end_of_batch(); }
  template <int batches>
  __device__ void await_batches() const {
    GpuWarps().await_batches<batches>();
  }
  __device__ bool any(bool value) const { return __any_sync(mask(), value) != 0; }
  __device__ int first_lane(bool value) const {
    return __ffs(static_cast<int>((__ballot_sync(mask(), value) & mask()) >> shift())) - 1;
  }
  template <class Key>
  __device__ int place_of_largest(Key key, int place) const {
    if constexpr (width == 32) {
      return GpuWarps().place_of_largest(key, place);
    } else {
#pragma unroll
      for (int distance = width / 2; distance > 0; distance /= 2) {
        const Key other = __shfl_xor_sync(mask(), key, distance, width);
        const int other_place = __shfl_xor_sync(mask(), place, distance, width);
        if (other > key || (other == key && other_place < place)) {
          key = other;
          place = other_place;
        }
      }
      return place;
    }
  }

 private:
  __device__ static int shift() { return static_cast<int>(threadIdx.x) % 32 / width * width; }
  __device__ static unsigned mask() { return width == 32 ? 0xffffffffU : ((1U << width % 32) - 1U) << shift(); }
};

/// A warp with a problem of its own, as if it were a block of one warp.
struct GpuWarp : GpuWarps {
  __device__ int warp() const { return 0; }
  __device__ void arrive(int /*barrier*/, int /*warps*/) const { __syncwarp(); }
  __device__ void await(int /*barrier*/, int /*warps*/) const { __syncwarp(); }
  __device__ void meet() const { __syncwarp(); }
};

}  // namespace tessera::kernels::cuda
