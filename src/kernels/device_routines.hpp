// The routines on matrices in the memory of one device, submitted to a stream of the caller. The C entry points of
// device_blas.h, device_lapack.h and device_half.h call them. libtessera_device.so contains the implementation of
// kernels/cuda, libtessera_device_host.so that of kernels/host.
#pragma once

#include <cstddef>
#include <memory>

#include "calls/level3.hpp"
#include "kernels/half_batch.hpp"
#include "kernels/lapack_batch.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels {

/// One thread at a time may use an object. Only the constructor and the destructor allocate, load or wait.
class DeviceRoutines {
 public:
  virtual ~DeviceRoutines() = default;
  /// @param stream a cudaStream_t of this device, or nullptr for its default stream; the caller keeps ownership
  virtual void set_stream(void* stream) = 0;
  /// Device memory that calls may use until they are done; the caller keeps ownership. Too little has the effect of
  /// none.
  virtual void set_workspace(void* memory, std::size_t bytes) = 0;
  /// Bytes of workspace that the call can use. Operands are not read.
  virtual std::size_t workspace_bytes(const Level3& call) const = 0;
  /// Submits the call. @pre it is valid, m, n >= 1; trmm has B == C
  /// @throws DeviceLost, InternalError
  virtual void run(const Level3& call) = 0;
  /// Bytes of workspace that a batch of so many problems can use, for any routine.
  virtual std::size_t batch_workspace_bytes(index_t count) const = 0;
  /// Submits the batch. @pre the variant is valid, and so are sizes and leading dimensions outside of arrays; count >=
  /// 1
  /// @throws DeviceLost, InternalError
  virtual void run_batch(const Level3Batch& batch) = 0;
  /// The same for products of 16-bit numbers. @pre, @throws as run_batch()
  virtual void run_half_batch(const HalfBatch& batch) = 0;
  /// Bytes that all problems of a batch at once can use. potri and getri: count * max_n * max_n elements, each
  /// problem's share rounded up to 256 bytes; all others: 0. Reads routine, type, max_n and count.
  virtual std::size_t lapack_workspace_bytes(const LapackBatch& batch) const = 0;
  /// Submits the batch. With less workspace its problems are computed in pieces.
  /// @pre the variant is valid, and so are sizes and leading dimensions outside of arrays; count >= 1. Common sizes may
  /// be 0: then only info is written
  /// @throws DeviceLost, InternalError; OutOfDeviceMemory if the workspace is too small for one problem
  virtual void run_lapack_batch(const LapackBatch& batch) = 0;
};

/// Creates the routines of the current device. Each library defines this function once.
/// @throws NotAvailable, OutOfDeviceMemory, DeviceLost
std::unique_ptr<DeviceRoutines> make_device_routines();

}  // namespace tessera::kernels
