// Driver contexts of the GPUs and errors of the runtime API.
//
// Tessera lives in other programs' processes, whose threads have a current CUDA device of their own. The plugin
// therefore makes its context current for the length of a call, and then restores the previous one, or none.
// cudaSetDevice could not restore "none" without creating a context on GPU 0. Only Device::attach_thread changes a
// thread permanently.
//
// A thread of the program may capture a stream into a graph in global mode. Then calls of other threads that might wait
// (queries of events, allocations) are refused, and invalidate the capture. A thread whose own capture mode is relaxed
// is exempt. No thread of ours ever captures, so all of our calls run in relaxed mode.
//
// The plugin uses the primary contexts, which it shares with the application and with cuBLAS. It never releases them:
// events may outlive their device, and CUDA must not be called while the process exits.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::device::cuda {

/// Primary context of GPU `ordinal`, created if necessary. The thread's current context stays. @throws NotAvailable
CUcontext primary_context(int ordinal);

/// The context that is current on this thread. If there is none, the primary context of GPU `ordinal`, which does not
/// become current. @throws NotAvailable
CUcontext context_of_thread(int ordinal);

/// During its lifetime captures of other threads do not affect this thread's calls. Costs little if the mode is already
/// relaxed. Does nothing without a driver.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept;
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  /// For a thread of our own, permanently.
  static void begin_for_thread() noexcept;

 private:
  CUstreamCaptureMode previous_ = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool restore_ = false;
};

/// Makes `context` current on this thread for its lifetime, and captures relaxed. Costs little if the context is
/// already current. If that fails, the following CUDA calls fail and report it.
class CurrentContext {
 public:
  explicit CurrentContext(CUcontext context) noexcept;
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  RelaxedCapture relaxed_;
  CUcontext previous_ = nullptr;
  bool restore_ = false;
};

/// Addresses [begin, end) of one allocation or host registration.
struct AddressRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
/// The range that contains `address`, according to the driver; empty if the driver does not know. @pre a context exists
AddressRange allocation_around(std::uintptr_t address) noexcept;

/// Virtual memory management of the driver.
struct MemoryFunctions {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
};
/// nullptr if the driver has none. @pre a context exists
const MemoryFunctions* memory_functions() noexcept;

/// Whether the driver lets streams wait for numbers in page-locked memory, and write them.
bool can_order_streams_by_memory() noexcept;
/// An operation of a stream on a number in page-locked memory.
struct NumberOperation {
  enum class Kind : std::uint8_t {
    await,  ///< later work in the stream waits until the number is at least `value`, with wrap-around
    write   ///< happens when the earlier work in the stream is done and visible to the host
  };
  Kind kind = Kind::await;
  std::uint32_t* number = nullptr;
  std::uint32_t value = 0;
};
/// Submits the operations in order, which is faster than one by one. @pre can_order_streams_by_memory()
/// @return false if the driver refused
bool submit_numbers(cudaStream_t stream, std::span<const NumberOperation> operations);

/// Whether the driver can describe matrices to the copy engines of multiprocessors, which GPUs have from compute
/// capability 9.0 on.
bool can_describe_tensors();
/// Describes a tensor of doubles in global memory, from which boxes are copied to shared memory, swizzled by 128 bytes.
/// Elements outside the tensor are zeros. The first dimension is contiguous.
/// @param strides in bytes, multiples of 16, of all dimensions but the first
/// @return false if the driver refused
/// @pre can_describe_tensors(); `address` is a multiple of 16
bool describe_tensor(CUtensorMap& map, const void* address, unsigned dimensions, const cuuint64_t* extents,
                     const cuuint64_t* strides, const cuuint32_t* box) noexcept;
template <std::size_t dimensions>
bool describe_tensor(CUtensorMap& map, const void* address, const std::array<cuuint64_t, dimensions>& extents,
                     const std::array<cuuint64_t, dimensions - 1>& strides,
                     const std::array<cuuint32_t, dimensions>& box) noexcept {
  return describe_tensor(map, address, static_cast<unsigned>(dimensions), extents.data(), strides.data(), box.data());
}

/// Clears the runtime's last error of this thread, which an unrelated later check would otherwise report.
inline void forget_error() noexcept { static_cast<void>(cudaGetLastError()); }

/// An attribute of a GPU; 0 if it cannot be read.
inline int attribute(int ordinal, cudaDeviceAttr name) noexcept {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, name, ordinal) == cudaSuccess) return value;
  forget_error();
  return 0;
}

/// Loads a kernel on the current GPU, in case modules are loaded lazily. The kernel may then be launched with so many
/// bytes of dynamic shared memory.
inline cudaError_t load_kernel(const void* kernel, std::size_t shared_bytes = 0) noexcept {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess || shared_bytes == 0) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
}

/// "an illegal memory access was encountered (cudaErrorIllegalAddress)"
std::string describe_error(cudaError_t error);

/// "cuda:1: copy up: an illegal memory access was encountered (cudaErrorIllegalAddress)"
std::string describe_error(int ordinal, const char* what, cudaError_t error);

/// @throws DeviceLost unless `error` is cudaSuccess
void check(int ordinal, const char* what, cudaError_t error);

}  // namespace tessera::device::cuda
