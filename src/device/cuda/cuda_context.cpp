#include "device/cuda/cuda_context.hpp"

#include <dlfcn.h>

#include <vector>

#include "core/error.hpp"

namespace tessera::device::cuda {
namespace {

/// The few driver functions without a counterpart in the runtime API. They are looked up, not linked. So the plugin can
/// be loaded on a machine without a driver, and can report that it is missing.
struct Driver {
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) primary_retain = nullptr;
  decltype(&cuCtxGetCurrent) get_current = nullptr;
  decltype(&cuCtxSetCurrent) set_current = nullptr;
  decltype(&cuGetErrorString) error_string = nullptr;
  decltype(&cuPointerGetAttribute) pointer_attribute = nullptr;
  // nullptr in an old driver:
  decltype(&cuStreamBatchMemOp) stream_numbers = nullptr;
  decltype(&cuTensorMapEncodeTiled) describe_tensor = nullptr;
  decltype(&cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;
  MemoryFunctions memory;
  bool maps_memory = false;  ///< the driver has all functions of `memory`
};

/// Other threads' captures do not affect this thread's calls. The driver keeps such a mode per thread, and this copy
/// saves the query.
thread_local bool is_relaxed = false;

/// @return whether the function exists
template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

template <class Function>
void resolve(void* library, const char* name, Function& function) {
  if (!find(library, name, function)) throw NotAvailable(std::string("the CUDA driver has no ") + name);
}

Driver open_driver() {
  // The runtime has already opened the driver; this call only finds it again. It is never closed.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw NotAvailable(std::string("no CUDA driver: ") + (reason ? reason : "libcuda.so.1 cannot be opened"));
  }
  Driver driver;
  resolve(library, "cuDeviceGet", driver.device_get);
  resolve(library, "cuDevicePrimaryCtxRetain", driver.primary_retain);
  resolve(library, "cuCtxGetCurrent", driver.get_current);
  resolve(library, "cuCtxSetCurrent", driver.set_current);
  resolve(library, "cuGetErrorString", driver.error_string);
  resolve(library, "cuPointerGetAttribute", driver.pointer_attribute);
  static_cast<void>(find(library, "cuStreamBatchMemOp_v2", driver.stream_numbers));
  static_cast<void>(find(library, "cuTensorMapEncodeTiled", driver.describe_tensor));
  static_cast<void>(find(library, "cuThreadExchangeStreamCaptureMode", driver.exchange_capture_mode));
  MemoryFunctions& memory = driver.memory;
  driver.maps_memory = find(library, "cuMemGetAllocationGranularity", memory.granularity) &&
                       find(library, "cuMemAddressReserve", memory.reserve) &&
                       find(library, "cuMemAddressFree", memory.free) && find(library, "cuMemCreate", memory.create) &&
                       find(library, "cuMemRelease", memory.release) && find(library, "cuMemMap", memory.map) &&
                       find(library, "cuMemUnmap", memory.unmap) && find(library, "cuMemSetAccess", memory.set_access);
  return driver;
}

const Driver& driver() {
  static const Driver functions = open_driver();
  return functions;
}

void check_driver(int ordinal, const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  static_cast<void>(driver().error_string(result, &text));
  throw NotAvailable("cuda:" + std::to_string(ordinal) + ": " + what + ": " +
                     (text ? text : "error " + std::to_string(static_cast<int>(result))));
}

}  // namespace

CUcontext primary_context(int ordinal) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  check_driver(ordinal, "cuDeviceGet", driver().device_get(&device, ordinal));
  check_driver(ordinal, "making a context", driver().primary_retain(&context, device));
  return context;
}

CUcontext context_of_thread(int ordinal) {
  CUcontext context = nullptr;
  check_driver(ordinal, "cuCtxGetCurrent", driver().get_current(&context));
  return context != nullptr ? context : primary_context(ordinal);
}

AddressRange allocation_around(std::uintptr_t address) noexcept {
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  const auto ask = driver().pointer_attribute;
  if (ask(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) != CUDA_SUCCESS ||
      ask(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) != CUDA_SUCCESS) {
    return {};
  }
  return {begin, begin + bytes};
}

const MemoryFunctions* memory_functions() noexcept { return driver().maps_memory ? &driver().memory : nullptr; }

bool can_order_streams_by_memory() noexcept { return driver().stream_numbers != nullptr; }

bool submit_numbers(cudaStream_t stream, std::span<const NumberOperation> operations) {
  if (operations.empty()) return true;
  std::vector<CUstreamBatchMemOpParams> all(operations.size());  // zeros
  for (std::size_t n = 0; n < all.size(); ++n) {
    const NumberOperation& operation = operations[n];
    const auto address = reinterpret_cast<CUdeviceptr>(operation.number);
    if (operation.kind == NumberOperation::Kind::await) {
      auto& wait = all[n].waitValue;
      wait.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
      wait.address = address;
      wait.value = operation.value;
      wait.flags = CU_STREAM_WAIT_VALUE_GEQ;
    } else {
      auto& write = all[n].writeValue;
      write.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      write.address = address;
      write.value = operation.value;
      write.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
  }
  return driver().stream_numbers(stream, static_cast<unsigned>(all.size()), all.data(), 0) == CUDA_SUCCESS;
}

bool can_describe_tensors() { return driver().describe_tensor != nullptr; }

bool describe_tensor(CUtensorMap& map, const void* address, unsigned dimensions, const cuuint64_t* extents,
                     const cuuint64_t* strides, const cuuint32_t* box) noexcept {
  constexpr cuuint32_t every_element[] = {1, 1, 1, 1, 1};
  return driver().describe_tensor(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, dimensions, const_cast<void*>(address),
                                  extents, strides, box, every_element, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

namespace {

/// @return whether this thread's mode is `mode` now; `mode` then holds the earlier mode
bool exchange_capture_mode(CUstreamCaptureMode& mode) noexcept {
  try {
    const auto exchange = driver().exchange_capture_mode;
    return exchange != nullptr && exchange(&mode) == CUDA_SUCCESS;
  } catch (const NotAvailable&) {
    return false;
  }
}

}  // namespace

RelaxedCapture::RelaxedCapture() noexcept {
  if (is_relaxed) return;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (!exchange_capture_mode(mode)) return;
  previous_ = mode;
  restore_ = is_relaxed = true;
}

RelaxedCapture::~RelaxedCapture() {
  if (!restore_) return;
  static_cast<void>(exchange_capture_mode(previous_));
  is_relaxed = false;
}

void RelaxedCapture::begin_for_thread() noexcept {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (!is_relaxed) is_relaxed = exchange_capture_mode(mode);
}

CurrentContext::CurrentContext(CUcontext context) noexcept {
  // A context exists, so primary_context() has resolved the driver, and driver() cannot throw here.
  const Driver& functions = driver();
  if (functions.get_current(&previous_) != CUDA_SUCCESS || previous_ == context) return;
  restore_ = functions.set_current(context) == CUDA_SUCCESS;
}

CurrentContext::~CurrentContext() {
  if (restore_) static_cast<void>(driver().set_current(previous_));
}

std::string describe_error(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

std::string describe_error(int ordinal, const char* what, cudaError_t error) {
  return "cuda:" + std::to_string(ordinal) + ": " + what + ": " + describe_error(error);
}

void check(int ordinal, const char* what, cudaError_t error) {
  if (error == cudaSuccess) return;
  forget_error();
  throw DeviceLost(describe_error(ordinal, what, error));
}

}  // namespace tessera::device::cuda
