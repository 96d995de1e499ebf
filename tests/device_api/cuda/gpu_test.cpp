// Properties of the device routines that only a GPU shows: calls captured into a graph, handles of one thread beside
// those of another, the thread's device. Batches that are captured are in captured_batch_test.cpp.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/device_api/cuda/cuda_device_api.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/device_api/lapack_runner.hpp"
#include "tests/device_api/runner.hpp"

namespace tessera {
namespace gpu_test {

using test::CudaDeviceApi;
using test::DeviceApi;
using test::Level3Fixture;
using test::same_bits;
using test::triangular_case;

class MultiGpuCudaDeviceApi : public CudaDeviceApi {};

/// A stream with a handle, and operands that a test can upload repeatedly.
template <Scalar T>
class Solve {
 public:
  Solve(const DeviceApi& api, Routine routine, index_t order, index_t columns, bool with_workspace)
      : api_(api), fixture_(triangular_case(routine, Side::left, order, columns), 1), call_(fixture_.problem()) {
    EXPECT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    EXPECT_EQ(api_.tessera_device_create(&handle_), TESSERA_SUCCESS) << api_.tessera_device_last_error();
    EXPECT_EQ(api_.tessera_device_set_stream(handle_, stream_), TESSERA_SUCCESS);
    std::size_t bytes = 0;
    EXPECT_EQ(api_.workspace(handle_, call_, &bytes), TESSERA_SUCCESS);
    if (with_workspace && bytes > 0) {
      EXPECT_CUDA(cudaMalloc(&workspace_, bytes));
      EXPECT_EQ(api_.tessera_device_set_workspace(handle_, workspace_, bytes), TESSERA_SUCCESS);
    }
    EXPECT_CUDA(cudaMalloc(&A_, fixture_.A().size() * sizeof(T)));
    EXPECT_CUDA(cudaMalloc(&C_, fixture_.C().size() * sizeof(T)));
    EXPECT_CUDA(cudaMemcpy(A_, fixture_.A().data(), fixture_.A().size() * sizeof(T), cudaMemcpyHostToDevice));
    B_before_ = fixture_.C();
    call_.A = A_;
    call_.C = C_;
  }
  ~Solve() {
    EXPECT_CUDA(cudaStreamSynchronize(stream_));
    EXPECT_EQ(api_.tessera_device_destroy(handle_), TESSERA_SUCCESS);
    for (void* const memory : {A_, C_, workspace_}) EXPECT_CUDA(cudaFree(memory));
    EXPECT_CUDA(cudaStreamDestroy(stream_));
  }
  Solve(const Solve&) = delete;
  Solve& operator=(const Solve&) = delete;

  cudaStream_t stream() const { return stream_; }
  tessera_status run() { return api_.run(handle_, call_); }
  void submit() { EXPECT_EQ(run(), TESSERA_SUCCESS) << api_.tessera_device_last_error(); }
  void put() {
    EXPECT_CUDA(cudaMemcpyAsync(C_, B_before_.data(), B_before_.size() * sizeof(T), cudaMemcpyHostToDevice, stream_));
    EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
  std::vector<T> result() {
    std::vector<T> C(B_before_.size());
    EXPECT_CUDA(cudaMemcpyAsync(C.data(), C_, C.size() * sizeof(T), cudaMemcpyDeviceToHost, stream_));
    EXPECT_CUDA(cudaStreamSynchronize(stream_));
    return C;
  }
  ::testing::AssertionResult check() {
    fixture_.C() = result();
    return fixture_.check();
  }

 private:
  const DeviceApi& api_;
  Level3Fixture<T> fixture_;
  Level3 call_;
  std::vector<T> B_before_;
  cudaStream_t stream_ = nullptr;
  tessera_device_handle handle_ = nullptr;
  void *A_ = nullptr, *C_ = nullptr, *workspace_ = nullptr;
};

// If a case runs first in the process, it captures the process's first call: nothing has been used before.
TEST_F(CudaDeviceApi, CallsAreCapturedAndReplayed) {
  const DeviceApi api(library());
  for (const test::DeviceRoutine& routine : test::all_device_routines()) {
    for (const index_t order : {60, 700}) {
      for (const bool with_workspace : {false, true}) {
        dispatch(routine.type, [&]<Scalar T>(T) {
          Solve<T> solve(api, routine.routine, order, 90, with_workspace);
          solve.put();
          cudaGraph_t graph = nullptr;
          cudaGraphExec_t executable = nullptr;
          EXPECT_CUDA(cudaStreamBeginCapture(solve.stream(), cudaStreamCaptureModeGlobal));
          solve.submit();
          EXPECT_CUDA(cudaStreamEndCapture(solve.stream(), &graph));
          ASSERT_NE(graph, nullptr);
          EXPECT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
          EXPECT_CUDA(cudaGraphLaunch(executable, solve.stream()));
          EXPECT_TRUE(solve.check()) << "first launch";
          const std::vector<T> first = solve.result();
          for (int launch = 0; launch < 3; ++launch) {
            solve.put();
            EXPECT_CUDA(cudaGraphLaunch(executable, solve.stream()));
            EXPECT_TRUE(same_bits(solve.result(), first)) << "launch " << launch;
          }
          solve.put();
          solve.submit();
          EXPECT_TRUE(same_bits(solve.result(), first)) << "without a graph";
          EXPECT_CUDA(cudaGraphExecDestroy(executable));
          EXPECT_CUDA(cudaGraphDestroy(graph));
        });
      }
    }
  }
}

/// An attribute of the device's own pool, from which cudaMallocAsync allocates: in bytes, for this process alone.
std::uint64_t pool_attribute(cudaMemPoolAttr attribute) {
  cudaMemPool_t pool = nullptr;
  std::uint64_t value = 0;
  EXPECT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  EXPECT_CUDA(cudaMemPoolGetAttribute(pool, attribute, &value));
  return value;
}
void forget_highest_use_of_pool() {
  cudaMemPool_t pool = nullptr;
  std::uint64_t zero = 0;
  EXPECT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
}

/// The number of nodes of a graph that allocate or free memory.
std::size_t allocations_in(cudaGraph_t graph) {
  std::size_t count = 0;
  EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  EXPECT_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  EXPECT_GT(count, 0U);
  return static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), [](cudaGraphNode_t node) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    EXPECT_CUDA(cudaGraphNodeGetType(node, &type));
    return type == cudaGraphNodeTypeMemAlloc || type == cudaGraphNodeTypeMemFree;
  }));
}

// Free memory would depend on other processes, too. While a stream is captured, CUDA refuses cudaMalloc and similar
// calls, and counts asynchronous allocations. Over the stand-in for CUDA, DeviceApiFaults and LapackFaults count calls
// of the allocator.
TEST_F(CudaDeviceApi, NothingIsAllocatedByCalls) {
  const DeviceApi api(library());
  for (const test::DeviceRoutine& routine : test::all_device_routines()) {
    dispatch(routine.type, [&]<Scalar T>(T) {
      Solve<T> solve(api, routine.routine, 1500, 300, true);
      solve.put();
      solve.submit();  // loads cuBLAS's kernels
      EXPECT_TRUE(!solve.result().empty());
      forget_highest_use_of_pool();
      const std::uint64_t before = pool_attribute(cudaMemPoolAttrUsedMemCurrent);
      solve.put();
      solve.submit();
      EXPECT_TRUE(!solve.result().empty());
      EXPECT_EQ(pool_attribute(cudaMemPoolAttrUsedMemHigh), before);
      cudaGraph_t graph = nullptr;
      EXPECT_CUDA(cudaStreamBeginCapture(solve.stream(), cudaStreamCaptureModeGlobal));
      solve.submit();
      EXPECT_CUDA(cudaStreamEndCapture(solve.stream(), &graph));
      ASSERT_NE(graph, nullptr);
      EXPECT_EQ(allocations_in(graph), 0U);
      EXPECT_CUDA(cudaGraphDestroy(graph));
    });
  }
}

// The test above relies on these properties.
TEST_F(CudaDeviceApi, AllocationsShowInPoolsAndCaptures) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  forget_highest_use_of_pool();
  const std::uint64_t before = pool_attribute(cudaMemPoolAttrUsedMemCurrent);
  void* memory = nullptr;
  EXPECT_CUDA(cudaMallocAsync(&memory, 1 << 20, stream));
  EXPECT_CUDA(cudaFreeAsync(memory, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_GE(pool_attribute(cudaMemPoolAttrUsedMemHigh), before + (1 << 20));
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_CUDA(cudaMallocAsync(&memory, 1 << 20, stream));
  EXPECT_CUDA(cudaFreeAsync(memory, stream));
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(allocations_in(graph), 2U);
  EXPECT_CUDA(cudaGraphDestroy(graph));
  EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_NE(cudaMalloc(&memory, 1 << 20), cudaSuccess);
  static_cast<void>(cudaStreamEndCapture(stream, &graph));
  static_cast<void>(cudaGetLastError());
  EXPECT_CUDA(cudaStreamDestroy(stream));
}

TEST_F(CudaDeviceApi, HandlesOfSeveralThreadsAreIndependent) {
  const DeviceApi api(library());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Solve<double> solve(api, thread % 2 == 0 ? Routine::trsm : Routine::trmm, 400 + 50 * thread, 70, thread < 2);
      std::vector<double> first;
      for (int round = 0; round < 20; ++round) {
        solve.put();
        solve.submit();
        const std::vector<double> now = solve.result();
        if (round == 0) first = now;
        if (!same_bits(now, first)) ++wrong;
      }
      if (!solve.check()) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// If another device is current, the call runs on the handle's device.
TEST_F(MultiGpuCudaDeviceApi, TheThreadsDeviceStays) {
  int count = 0;
  EXPECT_CUDA(cudaGetDeviceCount(&count));
  if (count < 2) GTEST_SKIP() << "2 CUDA devices needed, " << count << " found";
  const DeviceApi api(library());
  EXPECT_CUDA(cudaSetDevice(1));
  {
    Solve<double> solve(api, Routine::trsm, 300, 40, false);
    solve.put();
    EXPECT_CUDA(cudaSetDevice(0));
    solve.submit();
    int current = -1;
    EXPECT_CUDA(cudaGetDevice(&current));
    EXPECT_EQ(current, 0);
    EXPECT_CUDA(cudaSetDevice(1));
    EXPECT_TRUE(solve.check());
  }
  EXPECT_CUDA(cudaSetDevice(0));
}

// A thread without a context does not get one.
TEST_F(CudaDeviceApi, AThreadWithoutContextKeepsNone) {
  const DeviceApi api(library());
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_CUDA(cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &entry, 12000, cudaEnableDefault, &found));
  ASSERT_NE(entry, nullptr);
  const auto current = [&] {
    void* context = nullptr;
    EXPECT_EQ(reinterpret_cast<int (*)(void**)>(entry)(&context), 0);
    return context;
  };
  std::thread([&] {
    tessera_device_handle handle = nullptr;
    EXPECT_EQ(current(), nullptr);
    EXPECT_EQ(api.tessera_device_create(&handle), TESSERA_SUCCESS) << api.tessera_device_last_error();
    EXPECT_EQ(current(), nullptr);
    EXPECT_EQ(api.tessera_device_destroy(handle), TESSERA_SUCCESS) << api.tessera_device_last_error();
    EXPECT_EQ(current(), nullptr);
  }).join();
}

// The stream's error is reported, and the handle stays usable.
TEST_F(CudaDeviceApi, AStreamWhoseCaptureIsBrokenIsRefused) {
  const DeviceApi api(library());
  Solve<double> solve(api, Routine::trsm, 60, 20, false);
  solve.put();
  solve.submit();
  EXPECT_TRUE(solve.check());
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(solve.stream(), cudaStreamCaptureModeRelaxed));
  // not allowed during a capture: it invalidates the capture
  EXPECT_NE(cudaStreamSynchronize(solve.stream()), cudaSuccess);
  static_cast<void>(cudaGetLastError());
  EXPECT_EQ(solve.run(), TESSERA_INTERNAL_ERROR);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_NE(cudaStreamEndCapture(solve.stream(), &graph), cudaSuccess);
  static_cast<void>(cudaGetLastError());
  solve.put();
  solve.submit();
  EXPECT_TRUE(solve.check());
}

}  // namespace gpu_test
}  // namespace tessera
