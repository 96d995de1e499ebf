// The device routines on a GPU: level3_kernels.hpp on the caller's stream, with a cuBLAS handle of their own.
//
// The workspace of cuBLAS is allocated here, and set again after every change of its stream, which resets it. Otherwise
// cuBLAS could allocate during a call, and it never frees what it allocates for captures. The size is the one that
// cuBLAS recommends.
#include "kernels/device_routines.hpp"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <string>

#include "core/error.hpp"
#include "device/cuda/cuda_context.hpp"
#include "device/cuda/error_scope.hpp"
#include "device/cuda/gpu_description.hpp"
#include "kernels/cuda/batch_kernels.hpp"
#include "kernels/cuda/cublas_library.hpp"
#include "kernels/cuda/half_kernels.hpp"
#include "kernels/cuda/lapack_kernels.hpp"
#include "kernels/cuda/level3_kernels.hpp"

namespace tessera::kernels {
namespace cuda {
namespace {

using device::cuda::CurrentContext;

/// Source: cuBLAS Library, cublasSetWorkspace().
constexpr std::size_t cublas_workspace_bytes(int compute_capability_major) {
  return std::size_t{compute_capability_major >= 9 ? 32u : 4u} << 20;
}

class CudaDeviceRoutines final : public DeviceRoutines {
 public:
  /// @throws NotAvailable, OutOfDeviceMemory, DeviceLost
  CudaDeviceRoutines() : ordinal_(device::cuda::current_device()), context_(device::cuda::context_of_thread(ordinal_)) {
    const CurrentContext current(context_);
    try {
      check("loading the kernels", kernels_.load(ordinal_, device::cuda::describe_device(ordinal_).profile));
      check("loading the kernels", kernels_.load_chains());
      check("loading the kernels", batch_kernels_.load(ordinal_));
      check("loading the kernels", lapack_kernels_.load());
      check("loading the kernels", half_kernels_.load(ordinal_));
      make_handle();
    } catch (...) {
      release();
      throw;
    }
  }

  ~CudaDeviceRoutines() override {
    // If CUDA cannot be called any more, memory and handle are left to the end of the process. This happens in a child
    // after fork, with a broken context, and once the runtime shuts down, when each of its calls fails.
    if (process_ != getpid() || lost_) return;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
      device::cuda::forget_error();
      return;
    }
    const CurrentContext current(context_);
    release();
  }

  CudaDeviceRoutines(const CudaDeviceRoutines&) = delete;
  CudaDeviceRoutines& operator=(const CudaDeviceRoutines&) = delete;

  void set_stream(void* stream) override {
    const CurrentContext current(context_);
    set_cublas_stream(static_cast<cudaStream_t>(stream));
    to_.stream = static_cast<cudaStream_t>(stream);
  }

  void set_workspace(void* memory, std::size_t bytes) override {
    to_.workspace = memory;
    to_.workspace_bytes = bytes;
  }

  std::size_t workspace_bytes(const Level3& call) const override { return Level3Kernels::workspace_bytes(call); }

  void run(const Level3& call) override {
    const CurrentContext current(context_);
    check(name_of(call.routine), kernels_.submit(call, to_));
  }

  std::size_t batch_workspace_bytes(index_t count) const override { return BatchKernels::workspace_bytes(count); }

  void run_batch(const Level3Batch& batch) override {
    const CurrentContext current(context_);
    check(name_of(batch.common.routine), batch_kernels_.submit(batch, to_));
  }

  void run_half_batch(const HalfBatch& batch) override {
    const CurrentContext current(context_);
    check(name_of(batch.products.common.routine), half_kernels_.submit(batch, to_));
  }

  std::size_t lapack_workspace_bytes(const LapackBatch& batch) const override {
    return LapackKernels::workspace_bytes(batch);
  }

  void run_lapack_batch(const LapackBatch& batch) override {
    const CurrentContext current(context_);
    check(name_of(batch.routine), lapack_kernels_.submit(batch, to_));
  }

 private:
  void make_handle() {
    const int major = device::cuda::attribute(ordinal_, cudaDevAttrComputeCapabilityMajor);
    cublas_bytes_ = cublas_workspace_bytes(major);
    check("memory for cuBLAS", cudaMalloc(&cublas_memory_, cublas_bytes_));
    make_chain_memory();
    const cublasStatus_t created = cublas().Create(&to_.handle);
    if (created != CUBLAS_STATUS_SUCCESS) to_.handle = nullptr;
    check("cublasCreate", created);
    check("cublasSetPointerMode", cublas().SetPointerMode(to_.handle, CUBLAS_POINTER_MODE_HOST));
    // Sums of 16-bit numbers stay in single precision even where several thread blocks add them up.
    check("cublasSetMathMode",
          cublas().SetMathMode(
              to_.handle,
              static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
    set_cublas_stream(nullptr);
  }

  // Zeroes the memory on a stream of its own: the default stream may be part of another capture.
  void make_chain_memory() {
    check("memory for solves", cudaMalloc(&to_.chain_memory, chain_memory_bytes));
    check("stream", cudaStreamCreateWithFlags(&starting_, cudaStreamNonBlocking));
    check("memory for solves", cudaMemsetAsync(to_.chain_memory, 0, chain_memory_bytes, starting_));
    check("memory for solves", cudaStreamSynchronize(starting_));
    destroy_starting_stream();
  }

  // An object that cannot be destroyed here is tried again together with the handle.
  void destroy_starting_stream() noexcept {
    if (starting_ == nullptr) return;
    if (cudaStreamDestroy(starting_) == cudaSuccess)
      starting_ = nullptr;
    else
      device::cuda::forget_error();
  }

  void set_cublas_stream(cudaStream_t stream) {
    check("cublasSetStream", cublas().SetStream(to_.handle, stream));
    check("cublasSetWorkspace", cublas().SetWorkspace(to_.handle, cublas_memory_, cublas_bytes_));
  }

  /// @pre the context is current
  void release() noexcept {
    if (to_.handle != nullptr) static_cast<void>(cublas().Destroy(to_.handle));
    to_.handle = nullptr;
    for (void** const memory : {&cublas_memory_, &to_.chain_memory}) {
      if (*memory != nullptr && cudaFree(*memory) != cudaSuccess) device::cuda::forget_error();
      *memory = nullptr;
    }
    destroy_starting_stream();
  }

  void check(const char* what, const Outcome& outcome) {
    check(what, outcome.cublas);
    check(what, outcome.cuda);
  }

  void check(const char* what, cudaError_t error) {
    if (error == cudaSuccess) return;
    device::cuda::forget_error();
    fail(error, device::cuda::describe_error(ordinal_, what, error));
  }

  void check(const char* what, cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const std::string text = describe_status(ordinal_, what, status);
    if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfDeviceMemory(text);
    // cuBLAS does not report a broken context. Any call of the runtime does, and this one is allowed while the stream
    // is captured.
    cudaStreamCaptureStatus unused = cudaStreamCaptureStatusNone;
    const cudaError_t error = cudaStreamIsCapturing(to_.stream, &unused);
    device::cuda::forget_error();
    fail(error, text);
  }

  [[noreturn]] void fail(cudaError_t error, const std::string& text) {
    if (error == cudaErrorMemoryAllocation) throw OutOfDeviceMemory(text);
    // The kernels have not been compiled for this GPU.
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) throw NotAvailable(text);
    if (!device::cuda::is_sticky(error)) throw InternalError(text);
    lost_ = true;
    throw DeviceLost(text);
  }

  const pid_t process_ = getpid();
  const int ordinal_;
  const CUcontext context_;
  bool lost_ = false;
  Level3Kernels kernels_;
  BatchKernels batch_kernels_;
  LapackKernels lapack_kernels_{batch_kernels_};
  HalfKernels half_kernels_;
  cudaStream_t starting_ = nullptr;  ///< while the handle is created
  void* cublas_memory_ = nullptr;
  std::size_t cublas_bytes_ = 0;
  Submission to_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<DeviceRoutines> make_device_routines() {
  const device::cuda::RelaxedCapture relaxed;
  return std::make_unique<cuda::CudaDeviceRoutines>();
}

}  // namespace tessera::kernels
