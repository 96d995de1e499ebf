// The functions of libcudart that the plugin calls. Wrong arguments give the errors of the CUDA Runtime API, where the
// plugin relies on them.
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda_standin/machine.hpp"

using namespace tessera::cuda_standin;  // NOLINT(google-build-using-namespace): NVIDIA's headers fix the namespace

namespace {

/// A call of the runtime, which keeps the error that it returns.
class RuntimeCall : public Call {
 public:
  explicit RuntimeCall(const char* function) : Call(function), function_(function) { check_error_was_taken(function); }
  RuntimeCall(const char* function, Gpu* gpu) : Call(function, gpu), function_(function) {
    check_error_was_taken(function);
  }
  cudaError_t fail() const { return keep_error(function_, error()); }
  cudaError_t fail(cudaError_t error) const { return keep_error(function_, error); }

 private:
  const char* function_;
};

cudaError_t invalid_device(const RuntimeCall& call, int device) {
  const auto count = static_cast<int>(machine().gpus.size());
  return device >= 0 && device < count ? cudaSuccess : call.fail(cudaErrorInvalidDevice);
}

/// The kind of a memory range, as a copy sees it: of a GPU, page-locked, or neither. A mixed range is invalid.
enum class Place { pageable, locked, gpu, invalid };
Place place_of(Range range) {
  const auto* const first = machine().allocation_around(range.begin);
  const auto* const last = machine().allocation_around(range.end - 1);
  if (first != last) return Place::invalid;
  if (first == nullptr) return Place::pageable;
  return first->second.type == cudaMemoryTypeDevice ? Place::gpu : Place::locked;
}

/// The GPU of a stream; nullptr, for the current GPU, if it is the default stream.
Gpu* gpu_of(cudaStream_t stream) { return stream != nullptr ? stream->gpu : nullptr; }

struct Copy {
  std::byte* to;
  std::size_t to_pitch;
  const std::byte* from;
  std::size_t from_pitch;
  std::size_t width, height;

  Range target() const { return range_of(to, (height - 1) * to_pitch + width); }
  Range source() const { return range_of(from, (height - 1) * from_pitch + width); }
  /// The first half of a copy: of one column the first bytes, of several columns the first ones.
  void do_half(int half) const {
    if (height == 1) {
      const std::size_t middle = width / 2;
      std::memcpy(to + half * middle, from + half * middle, half == 0 ? middle : width - middle);
      return;
    }
    for (std::size_t j = half == 0 ? 0 : height / 2; j < (half == 0 ? height / 2 : height); ++j) {
      std::memcpy(to + j * to_pitch, from + j * from_pitch, width);
    }
  }
};

cudaError_t submit_copy(const RuntimeCall& call, const Copy& copy, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!call) return call.fail();
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (copy.height > 1 && (copy.width > copy.to_pitch || copy.width > copy.from_pitch)) {
    return call.fail(cudaErrorInvalidPitchValue);
  }
  const Place to = place_of(copy.target());
  const Place from = place_of(copy.source());
  const bool to_gpu = kind != cudaMemcpyDeviceToHost;
  const bool from_gpu = kind != cudaMemcpyHostToDevice;
  if (to == Place::invalid || from == Place::invalid || (to == Place::gpu) != to_gpu ||
      (from == Place::gpu) != from_gpu) {
    return call.fail(cudaErrorInvalidValue);
  }
  const char* const name = !to_gpu ? "copy down" : !from_gpu ? "copy up" : "copy from peer";
  submit(stream_of(stream, name),
         {.kind = name, .work = [copy](int half) { copy.do_half(half); }, .uses = {copy.target(), copy.source()}});
  return cudaSuccess;
}

}  // namespace

namespace tessera::cuda_standin {

cudaError_t launch(cudaStream_t stream, std::function<void()> work) {
  const RuntimeCall call("cudaLaunchKernel", nullptr);
  if (!call) return call.fail();
  CUstream_st& to = stream_of(stream, "cudaLaunchKernel");
  if (to.gpu != &call.gpu()) return call.fail(cudaErrorInvalidResourceHandle);
  // A kernel that fails writes nothing.
  submit(to, {.kind = "kernel", .work = [work = std::move(work)](int half) {
                if (half == 1) work();
              }});
  return cudaSuccess;
}

}  // namespace tessera::cuda_standin

cudaError_t cudaGetLastError() { return take_error(); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaError";
  }
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

// Devices

cudaError_t cudaGetDeviceCount(int* count) {
  const RuntimeCall call(__func__);
  if (!call) return call.fail();
  *count = static_cast<int>(machine().gpus.size());
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const RuntimeCall call(__func__);
  if (!call) return call.fail();
  if (const cudaError_t error = invalid_device(call, device); error != cudaSuccess) return error;
  *properties = {};
  std::strcpy(properties->name, "stand-in");
  properties->totalGlobalMem = machine().settings.memory_bytes;
  properties->major = 8;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const RuntimeCall call(__func__);
  if (!call) return call.fail();
  if (const cudaError_t error = invalid_device(call, device); error != cudaSuccess) return error;
  std::snprintf(text, static_cast<std::size_t>(length), "FFFF:FF:%02X.0", static_cast<unsigned>(device));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int device) {
  const RuntimeCall call(__func__);
  if (!call) return call.fail();
  if (const cudaError_t error = invalid_device(call, device); error != cudaSuccess) return error;
  switch (name) {
    case cudaDevAttrMaxPitch:
      *value = 2147483647;
      break;
    case cudaDevAttrClockRate:
      *value = 1000;  // kHz
      break;
    case cudaDevAttrMultiProcessorCount:
    case cudaDevAttrSingleToDoublePrecisionPerfRatio:
      *value = 2;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 163 << 10;
      break;
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterReadOnlySupported:
      *value = 1;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 8;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  const RuntimeCall call(__func__);
  if (!call) return call.fail();
  *device = current_context() != nullptr ? current_context()->gpu->ordinal : 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= machine().settings.gpus) return keep_error(__func__, cudaErrorInvalidDevice);
  Gpu& gpu = machine().gpus[static_cast<std::size_t>(device)];
  const RuntimeCall call(__func__, &gpu);
  if (!call) return call.fail();
  current_context() = &gpu.context;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  const RuntimeCall call(__func__);
  if (!call) return call.fail();
  *can = machine().settings.peers && device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  return machine().settings.peers && peer != call.gpu().ordinal ? cudaSuccess : call.fail(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  *attributes = {};
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* /*kernel*/, cudaFuncAttribute /*name*/, int /*value*/) {
  const RuntimeCall call(__func__, nullptr);
  return call ? cudaSuccess : call.fail();
}

// Memory

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  *total = machine().settings.memory_bytes;
  *free = *total - call.gpu().used_bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  Gpu& gpu = call.gpu();
  const bool fits = gpu.used_bytes + bytes <= machine().settings.memory_bytes;
  const std::uintptr_t made = fits ? machine().map_memory(bytes) : 0;
  if (made == 0) return call.fail(cudaErrorMemoryAllocation);
  machine().allocations[made] = {bytes, &gpu, cudaMemoryTypeDevice};
  gpu.used_bytes += bytes;
  ++gpu.held["device memory"];
  *address = reinterpret_cast<void*>(made);
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  const auto found = machine().allocations.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == machine().allocations.end() || found->second.gpu == nullptr) return call.fail(cudaErrorInvalidValue);
  Gpu& gpu = *found->second.gpu;
  if (machine().is_used(range_of(address, found->second.bytes))) note_offence("cudaFree of memory in use");
  // It waits for all submitted work. No caller should rely on that for copies.
  for (const CUstream_st& stream : gpu.streams) call.await_idle(stream);
  munmap(address, found->second.bytes);
  gpu.used_bytes -= found->second.bytes;
  --gpu.held["device memory"];
  machine().allocations.erase(found);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  const std::uintptr_t made = machine().map_memory(bytes);
  if (made == 0) return call.fail(cudaErrorMemoryAllocation);
  machine().allocations[made] = {bytes, &call.gpu(), cudaMemoryTypeHost, flags};
  ++call.gpu().held["page-locked memory"];
  *address = reinterpret_cast<void*>(made);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* address) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  const auto found = machine().allocations.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == machine().allocations.end() || found->second.gpu == nullptr) return call.fail(cudaErrorInvalidValue);
  const bool is_used = machine().is_used(range_of(address, found->second.bytes));
  if (is_used) {
    note_offence("cudaFreeHost of memory in use");
  } else {
    munmap(address, found->second.bytes);
  }
  --found->second.gpu->held["page-locked memory"];
  machine().allocations.erase(found);
  return cudaSuccess;
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* address) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  const auto* const found = machine().allocation_around(reinterpret_cast<std::uintptr_t>(address));
  if (found == nullptr || found->second.type != cudaMemoryTypeHost) return call.fail(cudaErrorInvalidValue);
  *flags = found->second.flags;
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned /*flags*/) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  const Range wanted = range_of(address, bytes);
  for (const auto& [begin, allocation] : machine().allocations) {
    if (wanted.overlaps({begin, begin + allocation.bytes})) return call.fail(cudaErrorHostMemoryAlreadyRegistered);
  }
  machine().allocations[wanted.begin] = {bytes, nullptr, cudaMemoryTypeHost};
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* address) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  const auto found = machine().allocations.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == machine().allocations.end() || found->second.gpu != nullptr) {
    return call.fail(cudaErrorHostMemoryNotRegistered);
  }
  if (machine().is_used(range_of(address, found->second.bytes))) note_offence("cudaHostUnregister of memory in use");
  machine().allocations.erase(found);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  const auto* const found = machine().allocation_around(reinterpret_cast<std::uintptr_t>(address));
  if (found == nullptr) return cudaSuccess;
  attributes->type = found->second.type;
  attributes->device = found->second.gpu != nullptr ? found->second.gpu->ordinal : call.gpu().ordinal;
  attributes->devicePointer = const_cast<void*>(address);
  if (found->second.type == cudaMemoryTypeHost) attributes->hostPointer = const_cast<void*>(address);
  return cudaSuccess;
}

// Copies

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const RuntimeCall call(__func__, gpu_of(stream));
  return submit_copy(call, {static_cast<std::byte*>(to), bytes, static_cast<const std::byte*>(from), bytes, bytes, 1},
                     kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  const RuntimeCall call(__func__, gpu_of(stream));
  return submit_copy(
      call, {static_cast<std::byte*>(to), to_pitch, static_cast<const std::byte*>(from), from_pitch, width, height},
      kind, stream);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const RuntimeCall call(__func__, gpu_of(stream));
  if (!call) return call.fail();
  // A memset that fails writes nothing.
  submit(stream_of(stream, __func__), {.kind = "memset", .work = [=](int half) {
                                         if (half == 1) std::memset(to, value, bytes);
                                       }});
  return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int /*to_device*/, const void* from, int /*from_device*/, std::size_t bytes,
                                cudaStream_t stream) {
  const RuntimeCall call(__func__, stream->gpu);
  return submit_copy(call, {static_cast<std::byte*>(to), bytes, static_cast<const std::byte*>(from), bytes, bytes, 1},
                     cudaMemcpyDeviceToDevice, stream);
}

// Streams

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/, int /*priority*/) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  Gpu& gpu = call.gpu();
  *stream = &gpu.streams.emplace_back();
  (*stream)->gpu = &gpu;
  ++gpu.held["streams"];
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  Gpu& gpu = call.gpu();
  *stream = &gpu.streams.emplace_back();
  (*stream)->gpu = &gpu;
  ++gpu.held["streams"];
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const RuntimeCall call(__func__, stream->gpu);
  if (!call) return call.fail();
  stream->is_destroyed = true;
  --call.gpu().held["streams"];
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const RuntimeCall call(__func__, gpu_of(stream));
  if (!call) return call.fail();
  return stream_of(stream, __func__).is_idle() ? cudaSuccess : call.fail(cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  RuntimeCall call(__func__, gpu_of(stream));
  if (call) call.await_idle(stream_of(stream, __func__));
  return call ? cudaSuccess : call.fail();
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const RuntimeCall call(__func__, gpu_of(stream));
  if (!call) return call.fail();
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const RuntimeCall call(__func__, stream->gpu);
  if (!call) return call.fail();
  if (event->record) submit(*stream, {.awaits = event->record});
  return cudaSuccess;
}

// Events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const RuntimeCall call(__func__, nullptr);
  if (!call) return call.fail();
  *event = new CUevent_st{&call.gpu(), (flags & cudaEventDisableTiming) == 0, nullptr};
  ++call.gpu().held["events"];
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const RuntimeCall call(__func__, event->gpu);
  if (!call) return call.fail();
  --call.gpu().held["events"];
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const RuntimeCall call(__func__, stream->gpu);
  if (!call) return call.fail();
  if (event->gpu != stream->gpu) return call.fail(cudaErrorInvalidResourceHandle);
  event->record = std::make_shared<Record>();
  submit(*stream, {.completes = event->record});
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const RuntimeCall call(__func__, event->gpu);
  if (!call) return call.fail();
  return !event->record || event->record->done ? cudaSuccess : call.fail(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  RuntimeCall call(__func__, event->gpu);
  if (!call) return call.fail();
  const std::shared_ptr<Record> record = event->record;
  machine().changed.wait(call.lock(), [&] { return !record || record->done || call.gpu().broken != cudaSuccess; });
  return call.gpu().broken == cudaSuccess ? cudaSuccess : call.fail(call.gpu().broken);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const RuntimeCall call(__func__, begin->gpu);
  if (!call) return call.fail();
  if (begin->gpu != end->gpu || !begin->has_time || !end->has_time || !begin->record || !end->record) {
    return call.fail(cudaErrorInvalidResourceHandle);
  }
  if (!begin->record->done || !end->record->done) return call.fail(cudaErrorNotReady);
  *milliseconds = static_cast<float>(1e3 * (end->record->seconds - begin->record->seconds));
  return cudaSuccess;
}
