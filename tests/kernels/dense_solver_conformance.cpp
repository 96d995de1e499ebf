// DenseSolver on every backend: the largest of the elements that a problem reads, and a problem in the device's own
// memory.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "kernels/dense_solver.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace dense_solver_conformance {

using kernels::DenseTelling;

class DenseSolverConformance : public ::testing::TestWithParam<test::BackendParam> {
 protected:
  static constexpr index_t n = 70, ld = 75;

  /// The reported largest element of the matrix, as A of the problem.
  template <Scalar T>
  static DenseTelling measure(test::OpenedDevices& opened, std::byte* slab, LapackCall problem, std::vector<T>& A) {
    device::Device& device = opened.device(0);
    kernels::DenseSolver& solver = *opened.accelerators[0].solver;
    problem.type = scalar_type_of<T>();
    problem.A = slab + 256;
    problem.lda = ld;
    problem.n = n;
    problem.values = problem.imaginary = slab;  // not read
    DenseTelling telling;
    constexpr index_t size = sizeof(T), telling_size = sizeof(telling);
    const auto bytes = [](void* address) { return static_cast<std::byte*>(address); };
    device.copy_up({slab, telling_size}, {bytes(&telling), telling_size}, {telling_size, 1});
    device.copy_up({slab + 256, ld * size}, {bytes(A.data()), ld * size}, {ld * size, n});
    const device::StreamId stream{device::StreamKind::compute, 1};
    device.wait(stream, device.record({device::StreamKind::up}));
    solver.measure(stream.index, problem, reinterpret_cast<DenseTelling*>(slab));
    device.wait({device::StreamKind::down}, device.record(stream));
    device.copy_down({bytes(&telling), telling_size}, {slab, telling_size}, {telling_size, 1});
    EXPECT_EQ(test::finish(device, {device::StreamKind::down}), device::EventStatus::complete);
    return telling;
  }
};

TEST_P(DenseSolverConformance, LargestElementsOfWhatIsRead) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::byte* const slab = opened.device(0).reserve(std::size_t{4} << 20);
  opened.accelerators[0].solver->load(Routine::heevd);
  for (const ScalarType type : test::all_types) {
    dispatch(type, [&]<Scalar T>(T) {
      using Real = decltype(std::abs(T{}));
      std::mt19937_64 random(3);
      const std::vector<T> plain = test::random_matrix<T>(n, n, ld, random);
      const auto with = [&](index_t i, index_t j, double number) {
        std::vector<T> A = plain;  // padding is NaN
        A[static_cast<std::size_t>(i + j * ld)] = scalar_cast<T>(AnyScalar(-number));
        return A;
      };
      const LapackCall general{.routine = Routine::geev}, lower{.routine = Routine::heevd};
      const LapackCall upper{.routine = Routine::heevd, .uplo = Uplo::upper};
      const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
      const auto largest = [&](const LapackCall& problem, std::vector<T> A) {
        return measure<T>(opened, slab, problem, A).largest[0];
      };
      std::vector<T> below = with(69, 0, 40), above = with(0, 69, 50);
      EXPECT_EQ(largest(general, below), 40);
      EXPECT_EQ(largest(general, above), 50);
      EXPECT_EQ(largest(lower, below), 40);
      EXPECT_LE(largest(lower, above), 1);
      EXPECT_LE(largest(upper, below), 1);
      EXPECT_EQ(largest(upper, above), 50);
      EXPECT_GT(largest(upper, plain), 0);
      EXPECT_EQ(largest(lower, with(33, 33, 1e30)), static_cast<double>(static_cast<Real>(1e30)));
      EXPECT_EQ(largest(lower, with(35, 33, infinity)), infinity);
      EXPECT_TRUE(std::isnan(largest(lower, with(35, 33, nan))));
      EXPECT_TRUE(std::isnan(largest(general, with(0, 0, nan))));
      EXPECT_LE(largest(lower, with(33, 35, nan)), 1);
      std::vector<T> imaginary = plain;
      if (is_complex(type)) {
        imaginary[5 + 5 * ld] = scalar_cast<T>(AnyScalar(0, nan));
        EXPECT_LE(largest(lower, imaginary), 1) << "imaginary parts of a Hermitian diagonal do not count";
        EXPECT_TRUE(std::isnan(largest(general, imaginary)));
      }
      EXPECT_EQ(largest(general, std::vector<T>(plain.size())), 0);
    });
  }
}

TEST_P(DenseSolverConformance, SpaceIsTold) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::byte* const slab = opened.device(0).reserve(std::size_t{4} << 20);
  kernels::DenseSolver& solver = *opened.accelerators[0].solver;
  solver.load(Routine::gesdd);
  LapackCall problem{.routine = Routine::gesdd, .u = VectorJob::thin, .vt = VectorJob::thin, .m = 40, .n = 60};
  problem.A = problem.U = problem.VT = problem.values = slab;
  problem.lda = problem.ldu = 40;
  problem.ldvt = 60;
  EXPECT_GT(solver.space(problem, kernels::SvdAlgorithm::qr_iteration).device_bytes, 0U);
}

TEST(HostDenseSolver, MatricesLieInItsMemory) {
  test::OpenedDevices opened = test::open_host_devices(1, {HostDeviceSettings{}}, test::cpu_blas());
  std::byte* const slab = opened.device(0).reserve(std::size_t{1} << 20);
  kernels::DenseSolver& solver = *opened.accelerators[0].solver;
  solver.load(Routine::potri);
  std::vector<double> elsewhere(100);
  LapackCall problem{.routine = Routine::potri, .n = 10, .A = elsewhere.data(), .lda = 10};
  auto* const telling = reinterpret_cast<DenseTelling*>(slab);
  kernels::DenseOutcome outcome;
  EXPECT_THROW(solver.run(0, problem, kernels::SvdAlgorithm::qr_iteration, {}, telling, &outcome), InternalError);
  EXPECT_THROW(solver.measure(0, problem, telling), InternalError);
}

TESSERA_INSTANTIATE_BACKENDS(DenseSolverConformance);

}  // namespace dense_solver_conformance
}  // namespace tessera
