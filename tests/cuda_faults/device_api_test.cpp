// Every function of CUDA that libtessera_device.so calls fails while a handle is made, used and destroyed. Each fails
// once by itself and once so that the context is broken. A status reports the fault, no resource leaks, and all that is
// not broken continues to work.
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda_faults/standin_machine.hpp"
#include "tests/device_api/device_api.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace device_api_test {

using cuda_standin::Fault;
using test::DeviceApi;

const DeviceApi& api() {
  static const DeviceApi library((test::library_folder() / "cuda_standin" / "libtessera_device.so").string());
  return library;
}

/// A routine, called by itself or as a batch of one.
struct Call {
  Routine routine;
  bool is_batch;
};

/// A problem in the memory of the GPU, which is the thread's current one.
class Problem {
 public:
  explicit Problem(const Call& call)
      : fixture_({.routine = call.routine, .m = 700, .n = 3, .k = 250, .alpha = 2}, 1),
        call_(fixture_.problem()),
        is_batch_(call.is_batch) {
    A_ = put(fixture_.A());
    B_ = put(fixture_.C());
    if (call_.has_op_b()) other_ = put(fixture_.B());
    EXPECT_EQ(cudaMalloc(&workspace_, workspace_bytes), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    call_.A = A_;
    call_.C = B_;
    if (call_.B != nullptr) call_.B = B_;
  }
  ~Problem() {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    for (void* const memory : {A_, B_, other_, workspace_}) {
      if (memory != nullptr) {
        EXPECT_EQ(cudaFree(memory), cudaSuccess);
      }
    }
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  tessera_status prepare(tessera_device_handle handle) const {
    const tessera_status status = api().tessera_device_set_stream(handle, stream_);
    if (status != TESSERA_SUCCESS) return status;
    return api().tessera_device_set_workspace(handle, workspace_, workspace_bytes);
  }
  tessera_status run(tessera_device_handle handle) const {
    if (!is_batch_) return api().run(handle, call_);
    kernels::Level3Batch batch;
    batch.common = call_;
    batch.count = 1;
    batch.m.of_all = call_.m;
    batch.n.of_all = call_.n;
    batch.lda.of_all = call_.lda;
    batch.ldc.of_all = call_.ldc;
    batch.A.first = A_;
    batch.C.first = B_;
    if (call_.has_op_b()) {
      batch.k.of_all = call_.k;
      batch.ldb.of_all = call_.ldb;
      batch.B.first = other_;
    }
    return api().run_batch(handle, test::BatchForm::strides, batch);
  }
  /// Checks the result of one call on the original matrices.
  ::testing::AssertionResult check() {
    test::Level3Fixture<double> result = fixture_;
    EXPECT_EQ(cudaMemcpyAsync(result.C().data(), B_, bytes_of(result.C()), cudaMemcpyDeviceToHost, stream_),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return result.check();
  }
  void restore() {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(B_, fixture_.C().data(), bytes_of(fixture_.C()), cudaMemcpyHostToDevice, stream_),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

 private:
  static constexpr std::size_t workspace_bytes = 1 << 16;
  static std::size_t bytes_of(const std::vector<double>& values) { return values.size() * sizeof(double); }
  static void* put(const std::vector<double>& values) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes_of(values)), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(memory, values.data(), bytes_of(values), cudaMemcpyHostToDevice, nullptr), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return memory;
  }

  test::Level3Fixture<double> fixture_;
  Level3 call_;
  const bool is_batch_;
  void *A_ = nullptr, *B_ = nullptr, *workspace_ = nullptr;
  void* other_ = nullptr;  ///< second factor, if B_ is not one
  cudaStream_t stream_ = nullptr;
};

enum class Phase { create, call, destroy };
constexpr Phase phases[] = {Phase::create, Phase::call, Phase::destroy};

/// A handle made, used and destroyed; `fault`, if any, happens in the phase.
/// @return calls of CUDA in that phase
std::map<std::string, std::int64_t> run_program(const Call& call, Phase at, const Fault* fault) {
  cuda_standin::start({});
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  const bool breaks = fault != nullptr && fault->stays;
  std::map<std::string, std::int64_t> calls;
  const auto in_phase = [&](Phase phase, auto&& body) {
    if (phase == at) fault != nullptr ? cuda_standin::inject(*fault) : cuda_standin::count_calls();
    const tessera_status status = body();
    if (phase == at) {
      calls = cuda_standin::calls();
      if (fault != nullptr && !fault->stays) cuda_standin::count_calls();
    }
    return status;
  };
  auto problem = std::make_unique<Problem>(call);
  tessera_device_handle handle = nullptr;
  const tessera_status made = in_phase(Phase::create, [&] { return api().tessera_device_create(&handle); });
  EXPECT_EQ(made == TESSERA_SUCCESS, handle != nullptr);
  if (made != TESSERA_SUCCESS) {
    EXPECT_EQ(at, Phase::create);
    EXPECT_STRNE(api().tessera_device_last_error(), "");
    if (!breaks) {
      EXPECT_EQ(api().tessera_device_create(&handle), TESSERA_SUCCESS) << api().tessera_device_last_error();
    }
  }
  if (handle != nullptr) {
    const tessera_status done = in_phase(Phase::call, [&] {
      const tessera_status ready = problem->prepare(handle);
      return ready == TESSERA_SUCCESS ? problem->run(handle) : ready;
    });
    if (done != TESSERA_SUCCESS) {
      EXPECT_STRNE(api().tessera_device_last_error(), "");
      EXPECT_TRUE(breaks || at == Phase::call) << api().tessera_device_last_error();
      if (!breaks) {
        problem->restore();
        EXPECT_EQ(problem->prepare(handle), TESSERA_SUCCESS);
        EXPECT_EQ(problem->run(handle), TESSERA_SUCCESS) << api().tessera_device_last_error();
      }
    }
    if (!breaks) {
      EXPECT_TRUE(problem->check());
    }
  }
  if (breaks && at != Phase::destroy) {
    problem.release();  // of a broken context: freed with it
  } else {
    problem.reset();
  }
  EXPECT_EQ(in_phase(Phase::destroy, [&] { return api().tessera_device_destroy(handle); }), TESSERA_SUCCESS);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  if (fault == nullptr || (at != Phase::destroy && !breaks)) {
    const std::map<std::string, std::int64_t> held = cuda_standin::held();
    EXPECT_TRUE(held.empty()) << held.begin()->first;
  }
  const std::vector<std::string> offences = cuda_standin::offences();
  EXPECT_TRUE(offences.empty()) << offences.front();
  return calls;
}

class DeviceApiFaults : public ::testing::TestWithParam<Call> {};

std::vector<Call> all_calls() {
  std::vector<Call> all;
  for (const Routine routine : test::distinct(test::all_device_routines())) {
    for (const bool is_batch : {false, true}) all.push_back({routine, is_batch});
  }
  all.push_back({Routine::gemm, true});  // of a size that cuBLAS computes
  return all;
}
INSTANTIATE_TEST_SUITE_P(Routines, DeviceApiFaults, ::testing::ValuesIn(all_calls()), [](const auto& info) {
  return name_of(info.param.routine) + std::string(info.param.is_batch ? "_batch" : "");
});

TEST_P(DeviceApiFaults, AreToldAndLeaveNothingBehind) {
  for (const Phase phase : phases) {
    for (const auto& [call, count] : run_program(GetParam(), phase, nullptr)) {
      if (call.rfind("cu", 0) != 0) continue;  // asynchronous operations
      for (const std::int64_t number : std::set<std::int64_t>{0, count / 2, count - 1}) {
        for (const cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorInvalidValue, cudaErrorIllegalAddress}) {
          const Fault fault{.call = call, .number = number, .error = error, .stays = error == cudaErrorIllegalAddress};
          SCOPED_TRACE(testing::Message() << "phase " << static_cast<int>(phase) << ": " << fault);
          run_program(GetParam(), phase, &fault);
          if (HasFailure()) return;
        }
      }
    }
  }
}

/// Calls of functions that take or give memory.
std::int64_t allocator_calls() {
  std::int64_t sum = 0;
  for (const auto& [name, count] : cuda_standin::calls()) {
    for (const char* const part : {"Malloc", "Alloc", "Free", "MemCreate", "MemRelease", "HostRegister"}) {
      if (name.find(part) == std::string::npos) continue;
      sum += count;
      break;
    }
  }
  return sum;
}

/// Makes the calls of `body` on a handle. Expects that the handle has memory of its own and that the calls allocate
/// none.
template <class Body>
void expect_no_allocation(Body body) {
  tessera_device_handle handle = nullptr;
  cuda_standin::count_calls();
  ASSERT_EQ(api().tessera_device_create(&handle), TESSERA_SUCCESS);
  EXPECT_GE(allocator_calls(), 2);
  cuda_standin::count_calls();
  body(handle);
  EXPECT_EQ(allocator_calls(), 0);
  EXPECT_EQ(api().tessera_device_destroy(handle), TESSERA_SUCCESS);
}

TEST_P(DeviceApiFaults, CallsNeitherAllocateNorFree) {
  cuda_standin::start({});
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  Problem problem(GetParam());
  expect_no_allocation([&](tessera_device_handle handle) {
    EXPECT_EQ(problem.prepare(handle), TESSERA_SUCCESS);
    EXPECT_EQ(problem.run(handle), TESSERA_SUCCESS) << api().tessera_device_last_error();
    EXPECT_TRUE(problem.check());
  });
}

/// Two problems of a routine that consists of several launches in sequence, in the memory of the GPU.
class Systems {
 public:
  explicit Systems(Routine routine) {
    batch_.routine = routine;
    batch_.type = ScalarType::d;
    batch_.count = problems;
    batch_.max_n = batch_.n.of_all = batch_.lda.of_all = batch_.ldb.of_all = order;
    batch_.max_nrhs = batch_.nrhs.of_all = 3;
    batch_.A.first = allocate(problems * order * order * sizeof(double));
    batch_.B.first = allocate(problems * order * 3 * sizeof(double));
    batch_.A.distance = order * order;
    batch_.B.distance = order * 3;
    batch_.ipiv.first = allocate(problems * order * sizeof(int));
    batch_.ipiv.distance = order;
    batch_.info = allocate(problems * sizeof(int));
    workspace_ = allocate(workspace_bytes);
    restore();
  }
  ~Systems() {
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    for (void* const memory : all_) EXPECT_EQ(cudaFree(memory), cudaSuccess);
  }
  Systems(const Systems&) = delete;
  Systems& operator=(const Systems&) = delete;

  /// Four times the identity, factored or not: its pivots are its own rows.
  void restore() {
    std::vector<double> A(static_cast<std::size_t>(problems * order * order)), B(problems * order * 3, 6.0);
    for (index_t i = 0; i < problems * order; ++i)
      A[static_cast<std::size_t>(i / order * order * order + i % order * (order + 1))] = 4;
    std::vector<int> rows(static_cast<std::size_t>(problems * order));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i % order) + 1;
    write(batch_.A.first, A);
    write(batch_.B.first, B);
    write(batch_.ipiv.first, rows);
  }
  tessera_status run(tessera_device_handle handle) const {
    const tessera_status status = api().tessera_device_set_workspace(handle, workspace_, workspace_bytes);
    return status == TESSERA_SUCCESS ? api().run_lapack(handle, test::BatchForm::strides, batch_) : status;
  }
  /// The last element of the last problem's result.
  double result() {
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    const bool is_inverse = inverts(batch_.routine);
    const auto* const at = static_cast<const double*>(is_inverse ? batch_.A.first : batch_.B.first);
    double value = 0;
    EXPECT_EQ(cudaMemcpyAsync(&value, at + problems * order * (is_inverse ? order : 3) - 1, sizeof value,
                              cudaMemcpyDeviceToHost, nullptr),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return value;
  }

 private:
  static constexpr index_t problems = 2, order = 200;
  static constexpr std::size_t workspace_bytes = order * order * sizeof(double) / 256 * 256 + 256;  // of one problem
  void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
    all_.push_back(memory);
    return memory;
  }
  template <class T>
  static void write(const void* to, const std::vector<T>& values) {
    EXPECT_EQ(cudaMemcpyAsync(const_cast<void*>(to), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                              nullptr),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }

  kernels::LapackBatch batch_;
  void* workspace_ = nullptr;
  std::vector<void*> all_;
};

class LapackFaults : public ::testing::TestWithParam<Routine> {};
INSTANTIATE_TEST_SUITE_P(Routines, LapackFaults,
                         ::testing::Values(Routine::posv, Routine::gesv, Routine::getrs, Routine::potri,
                                           Routine::getri),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(LapackFaults, OfEveryLaunchAreTold) {
  cuda_standin::start({});
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  auto systems = std::make_unique<Systems>(GetParam());
  tessera_device_handle handle = nullptr;
  ASSERT_EQ(api().tessera_device_create(&handle), TESSERA_SUCCESS);
  const double expected = GetParam() == Routine::potri ? 0.0625 : inverts(GetParam()) ? 0.25 : 1.5;
  cuda_standin::count_calls();
  ASSERT_EQ(systems->run(handle), TESSERA_SUCCESS) << api().tessera_device_last_error();
  EXPECT_EQ(systems->result(), expected);
  const std::map<std::string, std::int64_t> calls = cuda_standin::calls();
  const auto launches = calls.find("cudaLaunchKernel");
  ASSERT_NE(launches, calls.end());
  ASSERT_GE(launches->second, 3);
  for (std::int64_t number = 0; number < launches->second; ++number) {
    SCOPED_TRACE(number);
    systems->restore();
    cuda_standin::inject({.call = "cudaLaunchKernel", .number = number, .error = cudaErrorInvalidValue});
    EXPECT_NE(systems->run(handle), TESSERA_SUCCESS);
    EXPECT_STRNE(api().tessera_device_last_error(), "");
    cuda_standin::count_calls();
    systems->restore();
    EXPECT_EQ(systems->run(handle), TESSERA_SUCCESS) << api().tessera_device_last_error();
    EXPECT_EQ(systems->result(), expected);
  }
  systems.reset();
  EXPECT_EQ(api().tessera_device_destroy(handle), TESSERA_SUCCESS);
}

TEST_P(LapackFaults, CallsNeitherAllocateNorFree) {
  cuda_standin::start({});
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  Systems systems(GetParam());
  expect_no_allocation([&](tessera_device_handle handle) {
    EXPECT_EQ(systems.run(handle), TESSERA_SUCCESS) << api().tessera_device_last_error();
    EXPECT_NE(systems.result(), 0);
  });
}

TEST(DeviceApiFault, OfAKernelLosesTheDevice) {
  cuda_standin::start({});
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  auto problem = std::make_unique<Problem>(Call{Routine::trsm, false});
  tessera_device_handle handle = nullptr;
  ASSERT_EQ(api().tessera_device_create(&handle), TESSERA_SUCCESS);
  ASSERT_EQ(problem->prepare(handle), TESSERA_SUCCESS);
  cuda_standin::inject({.call = "kernel", .error = cudaErrorIllegalAddress, .stays = true});
  tessera_status status = problem->run(handle);
  while (!cuda_standin::has_happened()) {
  }
  while (status == TESSERA_SUCCESS) status = problem->run(handle);
  EXPECT_EQ(status, TESSERA_DEVICE_LOST) << api().tessera_device_last_error();
  EXPECT_EQ(api().tessera_device_destroy(handle), TESSERA_SUCCESS);
  problem.release();
}

TEST(DeviceApiFault, WithoutAGpuNoHandleIsMade) {
  cuda_standin::start({.gpus = 1});
  cuda_standin::inject({.call = "cudaGetDeviceCount", .error = cudaErrorNoDevice});
  tessera_device_handle handle = nullptr;
  EXPECT_EQ(api().tessera_device_create(&handle), TESSERA_NOT_AVAILABLE);
  EXPECT_STREQ(api().tessera_device_last_error(), "no CUDA device");
  EXPECT_EQ(handle, nullptr);
}

TEST(DeviceApiFault, WithoutMemoryNoHandleIsMade) {
  cuda_standin::start({.gpus = 1, .memory_bytes = 1 << 20});
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  tessera_device_handle handle = nullptr;
  EXPECT_EQ(api().tessera_device_create(&handle), TESSERA_OUT_OF_DEVICE_MEMORY);
  EXPECT_TRUE(cuda_standin::held().empty());
}

}  // namespace device_api_test
}  // namespace tessera
