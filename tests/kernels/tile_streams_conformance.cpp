// Kernels on all streams of all devices at once, and in the order of one stream.
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <vector>

#include "calls/level3.hpp"
#include "tests/device/backends.hpp"
#include "tests/kernels/device_runner.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace tile_streams_conformance {

using device::Device;
using device::EventPtr;
using device::EventStatus;
using device::StreamKind;
using test::BackendParam;
using test::DeviceRunner;
using test::Level3Case;
using test::Level3Fixture;
using test::wait_for;

class TileStreams : public ::testing::TestWithParam<BackendParam> {};

TEST_P(TileStreams, FourStreamsOnEveryDeviceAtOnce) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  struct Job {
    Level3Fixture<double> fixture;
    EventPtr done;
  };
  constexpr Routine real_routines[] = {Routine::gemm,  Routine::symm, Routine::syrk,
                                       Routine::syr2k, Routine::trmm, Routine::trsm};
  constexpr index_t per_device = 28;
  std::deque<DeviceRunner> runners;
  std::deque<Job> jobs;
  for (std::size_t d = 0; d < opened.size(); ++d) {
    runners.emplace_back(opened.device(d), opened.ops(d));
    index_t offset = 0;
    for (index_t i = 0; i < per_device; ++i) {
      const Level3Case c{.routine = real_routines[jobs.size() % std::size(real_routines)],
                         .op_b = Op::trans,
                         .m = 40 + i,
                         .n = 30 + i,
                         .k = 50,
                         .alpha = 2,
                         .beta = 0.5};
      jobs.push_back({Level3Fixture<double>(c, static_cast<unsigned>(jobs.size())), nullptr});
      jobs.back().done =
          runners.back().submit(jobs.back().fixture, static_cast<int>(i) % device::compute_streams, offset);
    }
  }
  for (const Job& job : jobs) {
    ASSERT_EQ(wait_for(job.done), EventStatus::complete);
    EXPECT_TRUE(job.fixture.check());
  }
}

TEST_P(TileStreams, StepsOfOneStreamAccumulate) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(DeviceRunner::default_bytes));
  // C = sum of X_l * Y_l over eight steps that follow each other on a stream, as in a task. The numbers are small
  // integers, so the sum is exact.
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

INSTANTIATE_TEST_SUITE_P(Host, TileStreams,
                         ::testing::Values(test::host_param(1), test::host_param(3),
                                           BackendParam{BackendParam::Kind::host, 2, false}),
                         [](const auto& info) { return info.param.name(); });
INSTANTIATE_TEST_SUITE_P(Cuda, TileStreams, ::testing::Values(test::cuda_param(1)),
                         [](const auto& info) { return info.param.name(); });
INSTANTIATE_TEST_SUITE_P(MultiGpu, TileStreams, ::testing::Values(test::cuda_param(2)),
                         [](const auto& info) { return info.param.name(); });

}  // namespace tile_streams_conformance
}  // namespace tessera
