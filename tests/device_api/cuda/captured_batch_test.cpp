// Batches that are captured into a graph once, and launched with other sizes, addresses and leading dimensions.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/device_api/batch_runner.hpp"
#include "tests/device_api/cuda/cuda_device_api.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/device_api/lapack_problem.hpp"
#include "tests/device_api/lapack_runner.hpp"
#include "tests/device_api/runner.hpp"
#include "tests/half_problem.hpp"

namespace tessera {
namespace captured_batch_test {

using test::CudaDeviceApi;
using test::DeviceApi;
using test::Level3Fixture;

/// Captures its first batch, and launches that graph for every batch: the arrays keep their addresses.
class ReplayedBatch final : public test::Implementation {
 public:
  explicit ReplayedBatch(const DeviceApi& api) : api_(api) {
    EXPECT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    EXPECT_EQ(api_.tessera_device_create(&handle_), TESSERA_SUCCESS) << api_.tessera_device_last_error();
    EXPECT_EQ(api_.tessera_device_set_stream(handle_, stream_), TESSERA_SUCCESS);
  }
  ~ReplayedBatch() override {
    EXPECT_CUDA(cudaStreamSynchronize(stream_));
    if (graph_ != nullptr) {
      EXPECT_CUDA(cudaGraphExecDestroy(executable_));
      EXPECT_CUDA(cudaGraphDestroy(graph_));
    }
    EXPECT_EQ(api_.tessera_device_destroy(handle_), TESSERA_SUCCESS);
    for (void* const memory : allocated_) EXPECT_CUDA(cudaFree(memory));
    EXPECT_CUDA(cudaStreamDestroy(stream_));
  }
  ReplayedBatch(const ReplayedBatch&) = delete;
  ReplayedBatch& operator=(const ReplayedBatch&) = delete;

  std::byte* allocate(std::size_t bytes) override {
    EXPECT_TRUE(allocated_.empty()) << "what was captured lies elsewhere";
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, bytes));
    allocated_.push_back(memory);
    return static_cast<std::byte*>(memory);
  }
  void write(std::byte* to, const std::byte* from, std::size_t bytes) override { copy(to, from, bytes); }
  void read(std::byte* to, const std::byte* from, std::size_t bytes) override { copy(to, from, bytes); }
  void run(const Level3& call) override { EXPECT_EQ(api_.run(handle_, call), TESSERA_SUCCESS); }
  void run_batch(const kernels::Level3Batch& batch) override {
    if (graph_ == nullptr) {
      captured_ = batch;
      EXPECT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
      EXPECT_EQ(api_.run_batch(handle_, test::form_of(batch), batch), TESSERA_SUCCESS)
          << api_.tessera_device_last_error();
      EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph_));
      EXPECT_CUDA(cudaGraphInstantiate(&executable_, graph_, 0));
    }
    EXPECT_EQ(captured_.n.of_each, batch.n.of_each);
    EXPECT_EQ(captured_.C.of_each, batch.C.of_each);
    EXPECT_CUDA(cudaGraphLaunch(executable_, stream_));
  }
  void run_half_batch(const kernels::HalfBatch& batch) override {
    if (graph_ == nullptr) {
      captured_ = batch.products;
      EXPECT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
      EXPECT_EQ(api_.run_half(handle_, test::form_of(batch.products), batch), TESSERA_SUCCESS)
          << api_.tessera_device_last_error();
      EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph_));
      EXPECT_CUDA(cudaGraphInstantiate(&executable_, graph_, 0));
    }
    EXPECT_EQ(captured_.n.of_each, batch.products.n.of_each);
    EXPECT_EQ(captured_.C.of_each, batch.products.C.of_each);
    EXPECT_CUDA(cudaGraphLaunch(executable_, stream_));
  }
  void run_lapack_batch(const kernels::LapackBatch& batch) override {
    if (graph_ == nullptr) {
      captured_lapack_ = batch;
      EXPECT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
      EXPECT_EQ(api_.run_lapack(handle_, test::form_of(batch), batch), TESSERA_SUCCESS)
          << api_.tessera_device_last_error();
      EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph_));
      EXPECT_CUDA(cudaGraphInstantiate(&executable_, graph_, 0));
    }
    EXPECT_EQ(captured_lapack_.n.of_each, batch.n.of_each);
    EXPECT_EQ(captured_lapack_.A.of_each, batch.A.of_each);
    EXPECT_EQ(captured_lapack_.info, batch.info);
    EXPECT_CUDA(cudaGraphLaunch(executable_, stream_));
  }
  std::size_t lapack_workspace_bytes(const kernels::LapackBatch& batch) override {
    std::size_t bytes = 0;
    if (!inverts(batch.routine)) return bytes;
    EXPECT_EQ(api_.lapack_workspace(handle_, batch, &bytes), TESSERA_SUCCESS);
    return bytes;
  }
  std::size_t batch_workspace_bytes(index_t count) override {
    std::size_t bytes = 0;
    EXPECT_EQ(api_.tessera_device_batch_workspace(handle_, count, &bytes), TESSERA_SUCCESS);
    return bytes;
  }
  void set_workspace(std::byte* memory, std::size_t bytes) override {
    EXPECT_EQ(api_.tessera_device_set_workspace(handle_, memory, bytes), TESSERA_SUCCESS);
  }

 private:
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    EXPECT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
    EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }

  const DeviceApi& api_;
  cudaStream_t stream_ = nullptr;
  tessera_device_handle handle_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  kernels::Level3Batch captured_;
  kernels::LapackBatch captured_lapack_;
  std::vector<void*> allocated_;
};

// Sizes, leading dimensions and addresses are read from the arrays when the graph is launched.
TEST_F(CudaDeviceApi, BatchesAreCapturedOnceForAllSizes) {
  const DeviceApi api(library());
  for (const test::DeviceRoutine& routine : test::all_batch_routines()) {
    for (const bool with_bounds : {false, true}) {
      for (const bool with_workspace : {false, true}) {
        SCOPED_TRACE(testing::Message() << name_of(routine.routine) << " bounds " << with_bounds << " workspace "
                                        << with_workspace);
        ReplayedBatch implementation(api);
        test::BatchRunner runner(implementation);
        constexpr index_t most = 90;
        dispatch(routine.type, [&]<Scalar T>(T) {
          for (index_t launch = 0; launch < 4; ++launch) {
            std::vector<Level3Fixture<T>> problems;
            for (index_t i = 0; i < 10; ++i) {
              test::Level3Case c{.routine = routine.routine, .alpha = -0.5, .beta = 2};
              c.m = launch == 2 ? 0 : (17 * i + 31 * launch) % (most + 1);
              c.n = (29 * i + 7 * launch) % (most + 1);
              c.k = (11 * i + 41 * launch) % (most + 1);
              c.padding = (i + launch) % 3;
              problems.emplace_back(c, static_cast<unsigned>(10 * launch + i));
            }
            const auto info = runner.run(problems, {.with_bounds = with_bounds,
                                                    .bounds = Level3{.m = most, .n = most, .k = most},
                                                    .with_workspace = with_workspace});
            for (const Level3Fixture<T>& problem : problems) EXPECT_TRUE(problem.check()) << "launch " << launch;
            for (const index_t of_problem : info) EXPECT_EQ(of_problem, 0);
          }
        });
      }
    }
  }
}

// The same for LAPACK's routines.
TEST_F(CudaDeviceApi, FactorizationsAreCapturedOnceForAllSizes) {
  const DeviceApi api(library());
  for (const Routine routine : test::all_lapack_routines()) {
    for (const bool with_bounds : {false, true}) {
      SCOPED_TRACE(testing::Message() << name_of(routine) << " bounds " << with_bounds);
      ReplayedBatch implementation(api);
      test::LapackRunner runner(implementation);
      constexpr index_t most = 90;
      const test::LapackVariant variant{.routine = routine};
      test::LapackProblems<double> made(variant, 1);
      for (index_t launch = 0; launch < 4; ++launch) {
        std::vector<test::LapackProblem<double>> problems;
        for (index_t i = 0; i < 10; ++i) {
          const index_t n = (29 * i + 7 * launch) % (most + 1);
          // Without interchanges wide matrices may be singular.
          const index_t m = launch == 2 ? 0 : std::max(n, (17 * i + 31 * launch) % (most + 1));
          problems.push_back(made.make(m, n, (11 * i + 41 * launch) % (most + 1), (i + launch) % 3));
        }
        test::LapackPlacement placement{.with_bounds = with_bounds};
        if (with_bounds || inverts(routine))
          placement.bounds = test::LapackPlacement::Bounds{.m = most, .n = most, .nrhs = most};
        // The captured workspace has room for any of them.
        placement.workspace_order = most;
        auto after = problems;
        runner.run(variant, after, placement);
        for (std::size_t i = 0; i < problems.size(); ++i)
          EXPECT_TRUE(test::is_solved(variant, problems[i], after[i])) << "launch " << launch << ", problem " << i;
      }
    }
  }
}

// cuBLAS computes some of them.
TEST_F(CudaDeviceApi, ProductsOfOneSizeAreCaptured) {
  const DeviceApi api(library());
  for (const ScalarType type : test::all_types) {
    for (const index_t size : {10, 40, 80}) {
      for (const test::BatchForm form : {test::BatchForm::pointers, test::BatchForm::strides}) {
        SCOPED_TRACE(testing::Message() << letter(type) << " " << size);
        ReplayedBatch implementation(api);
        test::BatchRunner runner(implementation);
        dispatch(type, [&]<Scalar T>(T) {
          for (unsigned launch = 0; launch < 3; ++launch) {
            std::vector<Level3Fixture<T>> problems;
            for (unsigned i = 0; i < 5; ++i) {
              test::Level3Case c{.routine = Routine::gemm, .m = size, .n = size, .k = size, .beta = 2};
              problems.emplace_back(c, 5 * launch + i);
            }
            runner.run(problems, {.form = form});
            for (const Level3Fixture<T>& problem : problems) EXPECT_TRUE(problem.check()) << "launch " << launch;
          }
        });
      }
    }
  }
}

// The same for 16-bit numbers: tiny problems, blocks, and unknown sizes.
TEST_F(CudaDeviceApi, ProductsOf16BitNumbersAreCapturedOnceForAllSizes) {
  const DeviceApi api(library());
  for (const HalfType type : half_types) {
    for (const index_t most : {7, 16, 90}) {
      for (const bool with_bounds : {false, true}) {
        SCOPED_TRACE(testing::Message() << letters(type) << " up to " << most << " bounds " << with_bounds);
        ReplayedBatch implementation(api);
        test::BatchRunner runner(implementation);
        dispatch(type, [&]<class E>(E) {
          for (index_t launch = 0; launch < 4; ++launch) {
            std::vector<test::HalfFixture<E>> problems;
            for (index_t i = 0; i < 10; ++i) {
              test::HalfCase c;
              c.m = (17 * i + 31 * launch) % (most + 1);
              c.n = (29 * i + 7 * launch) % (most + 1);
              c.k = (11 * i + 41 * launch) % (most + 1);
              c.padding = (i + launch) % 3;
              problems.emplace_back(c, static_cast<unsigned>(10 * launch + i));
            }
            const auto info =
                runner.run(problems, {.with_bounds = with_bounds, .bounds = Level3{.m = most, .n = most, .k = most}});
            for (const auto& problem : problems) EXPECT_TRUE(problem.check()) << "launch " << launch;
            for (const index_t of_problem : info) EXPECT_EQ(of_problem, 0);
          }
        });
      }
    }
  }
}

}  // namespace captured_batch_test
}  // namespace tessera
