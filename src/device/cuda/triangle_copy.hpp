// Copies the triangle of a block by a kernel, or the part of it that copy engines leave, which only know rectangles.
// Called by CudaDevice.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/device.hpp"

namespace tessera::device::cuda {

enum class TrianglePart : std::uint8_t { all, beside_rectangles };  ///< the rectangles of triangle_runs.hpp

/// Submits the copy of a triangle, or of a part of it, to the stream. Touches no other elements. Page-locked host
/// memory is accessed in place, at the rate of the link.
/// @param direction as for cudaMemcpy. With the profile of the stream's GPU it decides how many multiprocessors the
/// copy takes
/// @pre extent.part is a triangle; both blocks are accessible to the stream's GPU, which is current
cudaError_t copy_triangle(Block to, Block from, Extent extent, cudaMemcpyKind direction, TrianglePart part,
                          const DeviceProfile& profile, cudaStream_t stream);

/// Loads the kernels for the current GPU, so that no worker waits for that. @return an error if there are none for it
cudaError_t load_triangle_copy();

}  // namespace tessera::device::cuda
