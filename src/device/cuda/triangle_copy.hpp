// Copies the triangle of a block by a kernel, or what copy engines, which only know rectangles, leave of it. Called by CudaDevice.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/device.hpp"

namespace tessera::device::cuda {

enum class TrianglePart : std::uint8_t { all, beside_rectangles };  ///< the rectangles of triangle_runs.hpp

/// Submits the copy of a triangle to the stream; touches nothing outside the part of it. Page-locked host memory is read and written in
/// place, at the rate of the link.
/// @param direction as of cudaMemcpy; it decides how many multiprocessors the copy takes, by the profile of the stream's GPU
/// @pre extent.part is a triangle; both blocks are accessible to the stream's GPU, which is current
cudaError_t copy_triangle(Block to, Block from, Extent extent, cudaMemcpyKind direction, TrianglePart part,
                          const DeviceProfile& profile, cudaStream_t stream);

/// Loads the kernels for the current GPU now, so that no worker waits for it, and tells if there are none for it.
cudaError_t load_triangle_copy();

}  // namespace tessera::device::cuda
