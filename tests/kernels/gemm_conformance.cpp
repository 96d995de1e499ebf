// Tile products on every kind of device: host devices with the CPU BLAS, host devices with the reference, CUDA GPUs.
// All types, operations and factors; padding and inputs must stay as they are, and beta == 0 must not read C.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/level3.hpp"
#include "tests/device/backends.hpp"
#include "tests/kernels/gemm_problem.hpp"

namespace tessera {
namespace {

using device::Device;
using device::EventPtr;
using device::EventStatus;
using device::StreamId;
using device::StreamKind;
using test::BackendParam;
using test::GemmProblem;
using test::GemmShape;
using test::wait_for;

constexpr index_t slab_bytes = index_t{24} << 20;

/// Operands on the device, one after the other from `offset` on; the product runs there and comes back.
class DeviceGemm {
 public:
  DeviceGemm(Device& device, kernels::TileOps& ops) : device_(device), ops_(ops) {
    slab_ = device.reserve(static_cast<std::size_t>(slab_bytes));
  }

  template <Scalar T>
  struct Run {
    std::vector<T> C, X, Y;
    EventPtr done;
  };

  /// Submits the problem; the result may be looked at when `done` has completed, and `problem` must live until then.
  template <Scalar T>
  void submit(GemmProblem<T>& problem, int compute_stream, index_t& offset, Run<T>& run) {
    Level3 p = problem.product;
    std::byte* const X = put(problem.X, offset);
    std::byte* const Y = put(problem.Y, offset);
    std::byte* const C = put(problem.C, offset);
    p.A = X;
    p.B = Y;
    p.C = C;
    const StreamId compute{StreamKind::compute, compute_stream};
    device_.wait(compute, device_.record({StreamKind::up, 0}));
    ops_.run(compute_stream, p);
    device_.wait({StreamKind::down, 0}, device_.record(compute));
    get(run.C, problem.C.size(), C);
    get(run.X, problem.X.size(), X);
    get(run.Y, problem.Y.size(), Y);
    run.done = device_.record({StreamKind::down, 0});
  }

  template <Scalar T>
  static void expect(const GemmProblem<T>& problem, const Run<T>& run) {
    ASSERT_EQ(wait_for(run.done), EventStatus::complete);
    problem.expect_result(run.C);
    ASSERT_EQ(std::memcmp(run.X.data(), problem.X.data(), problem.X.size() * sizeof(T)), 0)
        << problem << ": X was written";
    ASSERT_EQ(std::memcmp(run.Y.data(), problem.Y.data(), problem.Y.size() * sizeof(T)), 0)
        << problem << ": Y was written";
  }

  template <Scalar T>
  void run_and_expect(GemmProblem<T>& problem) {
    index_t offset = 0;
    Run<T> run;
    submit(problem, 0, offset, run);
    expect(problem, run);
  }

 private:
  template <class T>
  std::byte* put(std::vector<T>& values, index_t& offset) {
    const auto bytes = static_cast<index_t>(values.size() * sizeof(T));
    std::byte* const address = slab_ + offset;
    offset = (offset + bytes + 255) / 256 * 256;
    EXPECT_LE(offset, slab_bytes);
    device_.copy_up({address, bytes}, {reinterpret_cast<std::byte*>(values.data()), bytes}, {bytes, 1});
    return address;
  }
  template <class T>
  void get(std::vector<T>& values, std::size_t count, std::byte* address) {
    values.resize(count);
    const auto bytes = static_cast<index_t>(count * sizeof(T));
    device_.copy_down({reinterpret_cast<std::byte*>(values.data()), bytes}, {address, bytes}, {bytes, 1});
  }

  Device& device_;
  kernels::TileOps& ops_;
  std::byte* slab_;
};

class GemmConformance : public ::testing::TestWithParam<BackendParam> {};

TEST_P(GemmConformance, AllParametersOnSmallTiles) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  DeviceGemm gemm(opened.device(0), opened.ops(0));
  test::for_each_problem({{1, 1, 1, 0}, {1, 9, 5, 3}, {16, 1, 7, 0}, {7, 5, 1, 2}, {16, 16, 16, 0}, {17, 13, 19, 4}},
                         [&](auto& problem) { gemm.run_and_expect(problem); });
}

TEST_P(GemmConformance, AllOperationsOnLargerTiles) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  DeviceGemm gemm(opened.device(0), opened.ops(0));
  for (const ScalarType type : {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z}) {
    dispatch(type, [&]<Scalar T>(T) {
      for (const Op op_x : test::all_ops()) {
        for (const Op op_y : test::all_ops()) {
          GemmProblem<T> problem(op_x, op_y, {65, 47, 131, 5}, AnyScalar(0.75, is_complex(type) ? 0.5 : 0), -1);
          gemm.run_and_expect(problem);
        }
      }
    });
  }
}

TEST_P(GemmConformance, FourStreamsOnEveryDeviceAtOnce) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  struct Job {
    GemmProblem<double> problem;
    DeviceGemm::Run<double> run;
  };
  constexpr int per_device = 24;
  std::vector<DeviceGemm> gemms;
  std::vector<Job> jobs;
  jobs.reserve(opened.size() * per_device);
  for (std::size_t d = 0; d < opened.size(); ++d) {
    gemms.emplace_back(opened.device(d), opened.ops(d));
    index_t offset = 0;
    for (int i = 0; i < per_device; ++i) {
      const auto seed = static_cast<std::uint32_t>(jobs.size() + 1);
      jobs.push_back({GemmProblem<double>(Op::no_trans, Op::trans, {40 + i, 30, 50, 3}, 2, 0.5, seed), {}});
      gemms[d].submit(jobs.back().problem, i % device::compute_streams, offset, jobs.back().run);
    }
  }
  for (const Job& job : jobs) DeviceGemm::expect(job.problem, job.run);
}

TEST_P(GemmConformance, StepsOfOneStreamAccumulate) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  // C = sum of X_l * Y_l over eight steps that follow each other on a stream, as a task does it: small integers, so
  // exact.
  constexpr index_t n = 24;
  constexpr index_t steps = 8;
  constexpr index_t bytes = n * n * static_cast<index_t>(sizeof(double));
  std::vector<double> factors_of_steps;
  std::vector<double> C(n * n, std::numeric_limits<double>::quiet_NaN());
  std::vector<double> expected(n * n, 0.0);
  for (index_t l = 0; l < 2 * steps; ++l) {
    for (index_t e = 0; e < n * n; ++e) factors_of_steps.push_back(static_cast<double>((e * 7 + l * 5) % 11 - 5));
  }
  device.copy_up({slab, bytes}, {reinterpret_cast<std::byte*>(C.data()), bytes}, {bytes, 1});
  device.copy_up({slab + bytes, bytes}, {reinterpret_cast<std::byte*>(factors_of_steps.data()), bytes},
                 {bytes, 2 * steps});
  device.wait({StreamKind::compute, 2}, device.record({StreamKind::up, 0}));
  for (index_t l = 0; l < steps; ++l) {
    Level3 p;
    p.m = p.n = p.k = p.lda = p.ldb = p.ldc = n;
    p.A = slab + (1 + 2 * l) * bytes;
    p.B = slab + (2 + 2 * l) * bytes;
    p.C = slab;
    p.beta = l == 0 ? 0 : 1;
    opened.ops(0).run(2, p);
    const double* const x = factors_of_steps.data() + 2 * l * n * n;
    kernels::reference_gemm<double>(Op::no_trans, Op::no_trans, n, n, n, 1, x, n, x + n * n, n, 1, expected.data(), n);
  }
  device.wait({StreamKind::down, 0}, device.record({StreamKind::compute, 2}));
  device.copy_down({reinterpret_cast<std::byte*>(C.data()), bytes}, {slab, bytes}, {bytes, 1});
  ASSERT_EQ(test::finish(device, {StreamKind::down, 0}), EventStatus::complete);
  EXPECT_TRUE(C == expected);
}

INSTANTIATE_TEST_SUITE_P(Host, GemmConformance,
                         ::testing::Values(BackendParam{BackendParam::Kind::host, 1, true},
                                           BackendParam{BackendParam::Kind::host, 3, true},
                                           BackendParam{BackendParam::Kind::host, 2, false}),
                         [](const auto& info) { return info.param.name(); });
INSTANTIATE_TEST_SUITE_P(Cuda, GemmConformance, ::testing::Values(test::cuda_param(1)),
                         [](const auto& info) { return info.param.name(); });
INSTANTIATE_TEST_SUITE_P(MultiGpu, GemmConformance, ::testing::Values(test::cuda_param(2)),
                         [](const auto& info) { return info.param.name(); });

TEST(HostTileOps, TilesOutsideTheDeviceAreRefused) {
  test::OpenedDevices opened = test::open_host_devices(1);
  std::byte* const slab = opened.device(0).reserve(3 * 64 * 8);
  Level3 p;
  p.m = p.n = p.k = p.lda = p.ldb = p.ldc = 8;
  p.A = slab;
  p.B = slab + 64 * 8;
  p.C = slab + 2 * 64 * 8;
  EXPECT_NO_THROW(opened.ops(0).run(0, p));
  EXPECT_THROW(opened.ops(0).run(device::compute_streams, p), InternalError);
  EXPECT_THROW(opened.ops(0).run(-1, p), InternalError);
  p.ldc = 9;
  EXPECT_THROW(opened.ops(0).run(0, p), InternalError);
  p.ldc = 8;
  double on_the_host[64] = {};
  p.B = reinterpret_cast<const std::byte*>(on_the_host);
  EXPECT_THROW(opened.ops(0).run(0, p), InternalError);
}

TEST(HostTileOps, WithoutComputeKernelsTakeTimeAndWriteNothing) {
  HostDeviceSettings settings;
  settings.compute = false;
  settings.flops_per_s = 1e6;
  test::OpenedDevices opened = test::open_host_devices(1, {settings});
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(64 * 8);
  Level3 p;
  p.m = p.n = p.k = p.lda = p.ldb = p.ldc = 8;
  p.A = p.B = p.C = slab;
  std::vector<double> values(64, 3.0);
  device.copy_up({slab, 512}, {reinterpret_cast<std::byte*>(values.data()), 512}, {512, 1});
  const EventPtr uploaded = device.record({StreamKind::up, 0});
  device.wait({StreamKind::compute, 0}, uploaded);
  opened.ops(0).run(0, p);
  const EventPtr computed = device.record({StreamKind::compute, 0});
  device.wait({StreamKind::down, 0}, computed);
  std::vector<double> after(64);
  device.copy_down({reinterpret_cast<std::byte*>(after.data()), 512}, {slab, 512}, {512, 1});
  ASSERT_EQ(test::finish(device, {StreamKind::down, 0}), EventStatus::complete);
  EXPECT_TRUE(after == values);
  EXPECT_GE(computed->completed_at(), uploaded->completed_at() + flops_of({.m = 8, .n = 8, .k = 8}) / 1e6 - 1e-9);
}

}  // namespace
}  // namespace tessera
