// The routines on matrices in the memory of one device, submitted to a stream of the caller: what the C entry points of
// device_blas.h, device_lapack.h and device_half.h stand on.
// libtessera_device.so has that of kernels/cuda, libtessera_device_host.so that of kernels/host.
#pragma once

#include <cstddef>
#include <memory>

#include "core/level3.hpp"
#include "kernels/half_batch.hpp"
#include "kernels/lapack_batch.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels {

/// Used by one thread at a time. Nothing but the constructor and the destructor allocates, loads or waits.
class DeviceRoutines {
 public:
  virtual ~DeviceRoutines() = default;
  /// @param stream a cudaStream_t of this device, or nullptr for its default stream; stays with the caller
  virtual void set_stream(void* stream) = 0;
  /// Memory of the device that calls may use until they are done; stays with the caller. Too little is as good as none.
  virtual void set_workspace(void* memory, std::size_t bytes) = 0;
  /// What the call can make use of. Operands are not looked at.
  virtual std::size_t workspace_bytes(const Level3& call) const = 0;
  /// Submits the call. @pre it is valid, m, n >= 1; trmm has B == C @throws DeviceLost, InternalError
  virtual void run(const Level3& call) = 0;
  /// What a batch of so many problems can make use of, whatever the routine.
  virtual std::size_t batch_workspace_bytes(index_t count) const = 0;
  /// Submits them. @pre the variant is valid, and so are sizes and leading dimensions that are not in arrays; count >= 1
  /// @throws DeviceLost, InternalError
  virtual void run_batch(const Level3Batch& batch) = 0;
  /// The same of products of 16-bit numbers. @pre, @throws as run_batch()
  virtual void run_half_batch(const HalfBatch& batch) = 0;
  /// What all problems of a batch at once make use of: potri and getri count * max_n * max_n elements, each problem's
  /// rounded up to 256 bytes; 0 for all others. Looks at routine, type, max_n and count.
  virtual std::size_t lapack_workspace_bytes(const LapackBatch& batch) const = 0;
  /// Submits them. With less workspace they are worked through in pieces. @pre the variant is valid, and so are sizes and
  /// leading dimensions that are not in arrays; count >= 1. Sizes of all may be 0: info alone is written then
  /// @throws DeviceLost, InternalError; OutOfDeviceMemory if the workspace is too small for one problem
  virtual void run_lapack_batch(const LapackBatch& batch) = 0;
};

/// On the current device. Defined once per library. @throws NotAvailable, OutOfDeviceMemory, DeviceLost
std::unique_ptr<DeviceRoutines> make_device_routines();

}  // namespace tessera::kernels
