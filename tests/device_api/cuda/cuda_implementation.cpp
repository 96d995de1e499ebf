#include "tests/device_api/cuda/cuda_implementation.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <stdexcept>

namespace tessera::test {
namespace {

/// The runtime functions that tests need, of the runtime that the test is linked with or of the stand-in. The library
/// under test has its own runtime.
struct Runtime {
  decltype(&::cudaGetDeviceCount) device_count = ::cudaGetDeviceCount;
  decltype(&::cudaSetDevice) set_device = ::cudaSetDevice;
  cudaError_t (*allocate)(void**, std::size_t) = ::cudaMalloc;
  cudaError_t (*release)(void*) = ::cudaFree;
  decltype(&::cudaMemcpyAsync) copy = ::cudaMemcpyAsync;
  decltype(&::cudaStreamCreateWithFlags) create_stream = ::cudaStreamCreateWithFlags;
  decltype(&::cudaStreamDestroy) destroy_stream = ::cudaStreamDestroy;
  decltype(&::cudaStreamSynchronize) synchronize = ::cudaStreamSynchronize;
  decltype(&::cudaGetErrorName) name_of_error = ::cudaGetErrorName;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("the stand-in has no ") + name);
}

Runtime standin_runtime(const std::string& folder) {
  void* const library = dlopen((folder + "/libcuda_standin.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  Runtime runtime;
  find(library, "cudaGetDeviceCount", runtime.device_count);
  find(library, "cudaSetDevice", runtime.set_device);
  find(library, "cudaMalloc", runtime.allocate);
  find(library, "cudaFree", runtime.release);
  find(library, "cudaMemcpyAsync", runtime.copy);
  find(library, "cudaStreamCreateWithFlags", runtime.create_stream);
  find(library, "cudaStreamDestroy", runtime.destroy_stream);
  find(library, "cudaStreamSynchronize", runtime.synchronize);
  find(library, "cudaGetErrorName", runtime.name_of_error);
  return runtime;
}

class CudaLibrary final : public LibraryImplementation {
 public:
  /// @pre the GPU is current
  CudaLibrary(const Runtime& runtime, const std::string& library) : runtime_(runtime), api_(library) {
    expect(runtime_.create_stream(&stream_, cudaStreamNonBlocking));
    EXPECT_EQ(api_.tessera_device_create(&handle_), TESSERA_SUCCESS) << api_.tessera_device_last_error();
    EXPECT_EQ(api_.tessera_device_set_stream(handle_, stream_), TESSERA_SUCCESS) << api_.tessera_device_last_error();
  }
  ~CudaLibrary() override {
    expect(runtime_.synchronize(stream_));
    expect(runtime_.synchronize(nullptr));  // for tests with handles of their own
    EXPECT_EQ(api_.tessera_device_destroy(handle_), TESSERA_SUCCESS) << api_.tessera_device_last_error();
    for (void* const memory : allocated_) expect(runtime_.release(memory));
    expect(runtime_.destroy_stream(stream_));
  }
  CudaLibrary(const CudaLibrary&) = delete;
  CudaLibrary& operator=(const CudaLibrary&) = delete;

  const DeviceApi& api() const override { return api_; }
  tessera_device_handle handle() const override { return handle_; }

  std::byte* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    expect(runtime_.allocate(&memory, bytes));
    allocated_.push_back(memory);
    return static_cast<std::byte*>(memory);
  }
  void write(std::byte* to, const std::byte* from, std::size_t bytes) override {
    expect(runtime_.copy(to, from, bytes, cudaMemcpyHostToDevice, stream_));
    expect(runtime_.synchronize(stream_));
  }
  void read(std::byte* to, const std::byte* from, std::size_t bytes) override {
    expect(runtime_.copy(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
    expect(runtime_.synchronize(stream_));
  }

 private:
  void expect(cudaError_t error) const { EXPECT_EQ(error, cudaSuccess) << runtime_.name_of_error(error); }

  const Runtime runtime_;
  const DeviceApi api_;
  cudaStream_t stream_ = nullptr;
  tessera_device_handle handle_ = nullptr;
  std::vector<void*> allocated_;
};

std::unique_ptr<LibraryImplementation> open(const Runtime& runtime, const std::string& library, std::string& missing) {
  int count = 0;
  if (const cudaError_t error = runtime.device_count(&count); error != cudaSuccess || count == 0) {
    missing = std::string("no CUDA device: ") + runtime.name_of_error(error);
    return nullptr;
  }
  EXPECT_EQ(runtime.set_device(0), cudaSuccess);
  return std::make_unique<CudaLibrary>(runtime, library);
}

}  // namespace

std::unique_ptr<LibraryImplementation> open_cuda(const std::string& library, std::string& missing) {
  return open({}, library, missing);
}

std::unique_ptr<LibraryImplementation> open_cuda_standin(const std::string& folder, std::string& missing) {
  return open(standin_runtime(folder), folder + "/libtessera_device.so", missing);
}

}  // namespace tessera::test
