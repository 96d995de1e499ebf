// The kernel copies one column per warp, in few, large blocks. The number of bytes in flight bounds the rate. Every
// further multiprocessor is only taken from the matrix kernels.
#include "device/cuda/triangle_copy.hpp"

#include <cuda_runtime.h>

#include "device/cuda/triangle_runs.hpp"

namespace tessera::device::cuda {
namespace {

// Constants of the kernel: they determine its registers and unrolled loops.
constexpr int warp = 32;
constexpr int threads_per_block = 512;
constexpr int in_flight = 4;  ///< loads of a thread before its first store

// The measurements behind the profile's numbers: one H200, beside products at 62 TFLOP/s, columns of 32 KiB. From
// page-locked memory 4, 6, 8, 16 blocks read 43, 47, 47, 48 GB/s, and leave 60, 58, 57, 54 TFLOP/s. To it 1, 2, 4, 16
// blocks write 32, 51, 51, 52 GB/s and leave 61, 55, 46, 37: stores that wait for the link delay all other accesses to
// memory. Beside the copy engine one block is enough. (If the two sides are aligned differently, accesses are as wide
// as an element or half of it, and reading is slower.)
int blocks_for(const TriangleBlocks& blocks, cudaMemcpyKind direction, TrianglePart part) {
  switch (direction) {
    case cudaMemcpyHostToDevice:
      return blocks.up;
    case cudaMemcpyDeviceToHost:
      return part == TrianglePart::all ? blocks.down : blocks.down_beside;
    default:
      return blocks.peer;
  }
}

struct Triangle {
  std::byte* to;
  const std::byte* from;
  index_t to_pitch, from_pitch;
  index_t column_bytes, columns, element_bytes;
  bool lower;
  TrianglePart part;
  TriangleCut cut;
};

/// Copies a warp's part of a run. All loads come before the stores, because the compiler must not move a load over a
/// store.
template <class Unit>
__device__ void copy_units(std::byte* to, const std::byte* from, index_t bytes, int lane) {
  auto* const target = reinterpret_cast<Unit*>(to);
  const auto* const source = reinterpret_cast<const Unit*>(from);
  const index_t count = bytes / static_cast<index_t>(sizeof(Unit));
  for (index_t begin = lane; begin < count; begin += in_flight * warp) {
    Unit loaded[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      if (begin + i * warp < count) loaded[i] = __ldcs(source + begin + i * warp);
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      if (begin + i * warp < count) __stcs(target + begin + i * warp, loaded[i]);
    }
  }
}

/// @tparam Unit every address is a multiple of its size
template <class Unit>
__global__ void __launch_bounds__(threads_per_block) copy_columns(Triangle triangle) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const int warps_per_block = threads_per_block / warp;
  const auto blocks = static_cast<index_t>(gridDim.x);
  // Neighbouring columns, whose lengths are similar, go to different blocks.
  const index_t first = static_cast<index_t>(blockIdx.x) + static_cast<index_t>(threadIdx.x) / warp * blocks;
  for (index_t j = first; j < triangle.columns; j += blocks * warps_per_block) {
    const ColumnRun run =
        triangle.part == TrianglePart::all
            ? triangle_column(triangle.lower, triangle.column_bytes, triangle.element_bytes, j)
            : column_beside_rectangle(triangle.cut, triangle.lower, triangle.column_bytes, triangle.element_bytes, j);
    if (run.first >= run.last) continue;
    std::byte* const to = triangle.to + j * triangle.to_pitch + run.first;
    const std::byte* const from = triangle.from + j * triangle.from_pitch + run.first;
    const index_t bytes = run.last - run.first;
    const WideRun wide = wide_run(reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from), bytes);
    if (wide.head == bytes) {
      copy_units<Unit>(to, from, bytes, lane);
      continue;
    }
    // One half of the warp copies the head, the other the tail; each has less than 16 units. They are stored last, so
    // that their loads overlap with those of the body.
    constexpr auto unit = static_cast<index_t>(sizeof(Unit));
    const bool at_head = lane < warp / 2;
    const index_t edge = at_head ? lane * unit : wide.head + wide.body + (lane - warp / 2) * unit;
    const bool has_edge = edge < (at_head ? wide.head : bytes);
    Unit loaded{};
    if (has_edge) loaded = __ldcs(reinterpret_cast<const Unit*>(from + edge));
    copy_units<uint4>(to + wide.head, from + wide.head, wide.body, lane);
    if (has_edge) __stcs(reinterpret_cast<Unit*>(to + edge), loaded);
  }
}

using Kernel = void (*)(Triangle);

Kernel kernel_for(int unit) {
  switch (unit) {
    case 8:
      return copy_columns<unsigned long long>;
    case 4:
      return copy_columns<unsigned int>;
    default:
      return copy_columns<unsigned char>;
  }
}

}  // namespace

cudaError_t copy_triangle(Block to, Block from, Extent extent, cudaMemcpyKind direction, TrianglePart part,
                          const DeviceProfile& profile, cudaStream_t stream) {
  if (extent.columns <= 0 || extent.column_bytes <= 0) return cudaSuccess;
  Triangle triangle{to.address,
                    from.address,
                    to.pitch_bytes,
                    from.pitch_bytes,
                    extent.column_bytes,
                    extent.columns,
                    extent.element_bytes,
                    extent.part == Part::lower,
                    part,
                    profile.triangle_cut};
  const int unit = narrow_bytes(
      reinterpret_cast<std::uintptr_t>(to.address) | reinterpret_cast<std::uintptr_t>(from.address) |
      static_cast<std::uintptr_t>(to.pitch_bytes | from.pitch_bytes | extent.column_bytes | extent.element_bytes));
  void* arguments[] = {&triangle};
  const auto blocks = static_cast<unsigned>(blocks_for(profile.triangle_blocks, direction, part));
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel_for(unit)), dim3(blocks), dim3(threads_per_block),
                          arguments, 0, stream);
}

cudaError_t load_triangle_copy() {
  for (const int unit : {1, 4, 8}) {
    cudaFuncAttributes attributes{};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel_for(unit)));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace tessera::device::cuda
