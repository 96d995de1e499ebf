// Driver contexts of the GPUs and errors of the runtime API.
//
// Tessera lives in other programs' processes, whose threads have a current CUDA device of their own. The plugin
// therefore makes its context current for the length of a call and restores what was current before, including "none":
// cudaSetDevice could not restore that without making a context on GPU 0. Only Device::attach_thread changes a thread
// for good.
//
// While some thread of the program captures a stream into a graph in global mode, calls of all others that might wait
// are refused, and spoil the capture: queries of events, allocations. A thread is exempt whose own capture mode is
// relaxed. None of ours ever captures, so it is so for all that we call.
//
// The plugin uses the primary contexts, which it shares with the application and with cuBLAS, and never releases them:
// events may outlive their device, and CUDA must not be touched while the process exits.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::device::cuda {

/// Primary context of GPU `ordinal`, made if need be; the thread's current context stays. @throws NotAvailable
CUcontext primary_context(int ordinal);

/// The context that is current on this thread. Where none is: that of GPU `ordinal` as above, which does not become current.
/// @throws NotAvailable
CUcontext context_of_thread(int ordinal);

/// This thread's calls have nothing to do with captures of other threads while it lives. Cheap where that is so
/// already; does nothing where there is no driver.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept;
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  /// For a thread of our own, for good.
  static void begin_for_thread() noexcept;

 private:
  CUstreamCaptureMode previous_ = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool restore_ = false;
};

/// Makes `context` current on this thread while it lives, and captures relaxed. Cheap where it is current already.
/// Where that fails, the CUDA calls that follow fail and report it.
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
/// The one that `address` lies in, as the driver knows it; empty where it cannot tell. @pre a context has been made
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
/// nullptr if the driver has none. @pre a context has been made
const MemoryFunctions* memory_functions() noexcept;

/// The driver lets streams wait for and write numbers in page-locked memory.
bool can_order_streams_by_memory() noexcept;
/// What a stream does with a number in page-locked memory.
struct NumberOperation {
  enum class Kind : std::uint8_t {
    await,  ///< what follows in the stream waits until the number is at least `value`, as distances on a circle go
    write   ///< when what precedes in the stream is done and visible to the host
  };
  Kind kind = Kind::await;
  std::uint32_t* number = nullptr;
  std::uint32_t value = 0;
};
/// These, one after the other, which is quicker than one by one. @pre can_order_streams_by_memory()
/// @return false if the driver refused
bool submit_numbers(cudaStream_t stream, std::span<const NumberOperation> operations);

/// The driver can describe matrices to the copy engines of multiprocessors (GPUs from compute capability 9.0 on have
/// them).
bool can_describe_tensors();
/// Describes a tensor of doubles in global memory, boxes of which are to be copied to shared memory, swizzled by 128
/// bytes; zeros come from outside of it. The first dimension is contiguous.
/// @param strides in bytes, multiples of 16, of all dimensions but the first
/// @return false if the driver refused @pre can_describe_tensors(); `address` is a multiple of 16
bool describe_tensor(CUtensorMap& map, const void* address, unsigned dimensions, const cuuint64_t* extents,
                     const cuuint64_t* strides, const cuuint32_t* box) noexcept;
template <std::size_t dimensions>
bool describe_tensor(CUtensorMap& map, const void* address, const std::array<cuuint64_t, dimensions>& extents,
                     const std::array<cuuint64_t, dimensions - 1>& strides,
                     const std::array<cuuint32_t, dimensions>& box) noexcept {
  return describe_tensor(map, address, static_cast<unsigned>(dimensions), extents.data(), strides.data(), box.data());
}

/// Forgets the runtime's last error of this thread, which would otherwise be found by an unrelated later check.
inline void forget_error() noexcept { static_cast<void>(cudaGetLastError()); }

/// An attribute of a GPU; 0 where it cannot be read.
inline int attribute(int ordinal, cudaDeviceAttr name) noexcept {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, name, ordinal) == cudaSuccess) return value;
  forget_error();
  return 0;
}

/// Loads a kernel on the current GPU, where modules are loaded lazily, for launches with so many bytes of dynamic
/// shared memory.
inline cudaError_t load_kernel(const void* kernel, std::size_t shared_bytes = 0) noexcept {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess || shared_bytes == 0) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
}

/// "cuda:1: copy up: an illegal memory access was encountered (cudaErrorIllegalAddress)"
std::string describe_error(int ordinal, const char* what, cudaError_t error);

/// @throws DeviceLost unless `error` is cudaSuccess
void check(int ordinal, const char* what, cudaError_t error);

}  // namespace tessera::device::cuda
