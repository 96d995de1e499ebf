// The functions of libcuda that the plugin looks up. Error numbers are the runtime's.
#include <cuda.h>
#include <sys/mman.h>

#include <span>

#include "tests/cuda_standin/machine.hpp"

using namespace tessera::cuda_standin;  // NOLINT(google-build-using-namespace): NVIDIA's headers fix the namespace

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;

CUresult result_of(const Call& call) { return static_cast<CUresult>(call.error()); }

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): as the driver has it
}

thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

}  // namespace

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  const Call call(__func__);
  if (!call) return result_of(call);
  if (ordinal < 0 || ordinal >= static_cast<int>(machine().gpus.size())) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Gpu& gpu = machine().gpus[static_cast<std::size_t>(device)];
  const Call call(__func__, &gpu);
  if (!call) return result_of(call);
  gpu.has_context = true;
  *context = &gpu.context;
  return CUDA_SUCCESS;
}

// The current context belongs to the thread: these two functions work even if that context is broken.
CUresult cuCtxGetCurrent(CUcontext* context) {
  const Call call(__func__);
  if (!call) return result_of(call);
  *context = current_context();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  const Call call(__func__);
  if (!call) return result_of(call);
  current_context() = context;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "an error of the stand-in";
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute name, CUdeviceptr address) {
  const Call call(__func__);
  if (!call) return result_of(call);
  const auto* const found = machine().allocation_around(address);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (name == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) {
    *static_cast<CUdeviceptr*>(value) = found->first;
  } else if (name == CU_POINTER_ATTRIBUTE_RANGE_SIZE) {
    *static_cast<std::size_t*>(value) = found->second.bytes;
  } else {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const Call call(__func__);
  if (!call) return result_of(call);
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned /*flags*/) {
  const Call call(__func__, stream->gpu);
  if (!call) return result_of(call);
  for (const CUstreamBatchMemOpParams& each : std::span(operations, count)) {
    const bool writes = each.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32;
    if (!writes &&
        (each.operation != CU_STREAM_MEM_OP_WAIT_VALUE_32 || each.waitValue.flags != CU_STREAM_WAIT_VALUE_GEQ))
      return CUDA_ERROR_NOT_SUPPORTED;
    auto* const number =
        static_cast<std::uint32_t*>(pointer(writes ? each.writeValue.address : each.waitValue.address));
    submit(*stream, {.uses = {range_of(number, sizeof *number)},
                     .number = number,
                     .value = writes ? each.writeValue.value : each.waitValue.value,
                     .writes = writes});
  }
  return CUDA_SUCCESS;
}

// Virtual memory

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* /*properties*/,
                                       CUmemAllocationGranularity_flags /*option*/) {
  const Call call(__func__);
  if (!call) return result_of(call);
  *bytes = granularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t /*alignment*/, CUdeviceptr /*wanted*/,
                             unsigned long long /*flags*/) {
  const Call call(__func__, nullptr);
  if (!call) return result_of(call);
  void* const made = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(made);
  machine().reservations[*address] = range_of(made, bytes);
  ++call.gpu().held["addresses"];
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  const Call call(__func__, nullptr);
  if (!call) return result_of(call);
  const auto found = machine().reservations.find(address);
  if (found == machine().reservations.end()) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [begin, handle] : machine().mapped) {
    if (found->second.holds({begin, begin + 1})) return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(pointer(address), bytes);
  machine().reservations.erase(found);
  --call.gpu().held["addresses"];
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long /*flags*/) {
  const Call call(__func__, nullptr);
  if (!call) return result_of(call);
  Gpu& gpu = machine().gpus[static_cast<std::size_t>(properties->location.id)];
  if (bytes % granularity != 0) return CUDA_ERROR_INVALID_VALUE;
  if (gpu.used_bytes + bytes > machine().settings.memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  static CUmemGenericAllocationHandle last = 0;
  *handle = ++last;
  machine().chunks[*handle] = {&gpu, bytes};
  gpu.used_bytes += bytes;
  ++gpu.held["chunks"];
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Call call(__func__, nullptr);
  if (!call) return result_of(call);
  const auto found = machine().chunks.find(handle);
  if (found == machine().chunks.end()) return CUDA_ERROR_INVALID_VALUE;
  // In CUDA, memory that is still mapped goes with its mapping. The plugin unmaps first.
  for (const auto& [begin, mapped] : machine().mapped) {
    if (mapped == handle) note_offence("cuMemRelease of a mapped chunk");
  }
  found->second.gpu->used_bytes -= found->second.bytes;
  --found->second.gpu->held["chunks"];
  machine().chunks.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t /*offset*/, CUmemGenericAllocationHandle handle,
                  unsigned long long /*flags*/) {
  const Call call(__func__, nullptr);
  if (!call) return result_of(call);
  const auto chunk = machine().chunks.find(handle);
  if (chunk == machine().chunks.end() || chunk->second.bytes != bytes || machine().mapped.contains(address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  machine().mapped[address] = handle;
  ++chunk->second.gpu->held["mappings"];
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  const Call call(__func__, nullptr);
  if (!call) return result_of(call);
  const auto found = machine().mapped.find(address);
  if (found == machine().mapped.end()) return CUDA_ERROR_INVALID_VALUE;
  if (machine().is_used(range_of(pointer(address), bytes))) note_offence("cuMemUnmap of memory in use");
  // Any later access is a page fault.
  mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  --machine().chunks.at(found->second).gpu->held["mappings"];
  machine().mapped.erase(found);
  machine().allocations.erase(address);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* /*access*/,
                        std::size_t /*count*/) {
  const Call call(__func__, nullptr);
  if (!call) return result_of(call);
  const auto found = machine().mapped.find(address);
  if (found == machine().mapped.end()) return CUDA_ERROR_INVALID_VALUE;
  mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE);
  machine().allocations[address] = {bytes, machine().chunks.at(found->second).gpu, cudaMemoryTypeDevice};
  return CUDA_SUCCESS;
}
