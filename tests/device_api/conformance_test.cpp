// Every routine of device_blas.h (src/device_api/routines.def), in every type and variant, on every implementation:
// sizes around those of blocks, padding, addresses, triangles that only substitution solves. Elements that must not be
// read are NaN. Elements that must not be written are compared byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <tuple>
#include <vector>

#include "tests/device/backends.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/device_api/runner.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace conformance_test {

using test::DeviceRunner;
using test::ImplementationKind;
using test::Level3Case;
using test::Level3Fixture;
using test::Placement;
using test::Triangle;
using test::triangular_case;

/// The rows of a problem's triangle, and its right-hand sides.
struct Size {
  index_t order, right_hand_sides;
};

class DeviceRoutineConformance : public ::testing::TestWithParam<std::tuple<ImplementationKind, Routine>> {
 protected:
  ImplementationKind kind() const { return std::get<ImplementationKind>(GetParam()); }
  Routine routine() const { return std::get<Routine>(GetParam()); }
  std::vector<ScalarType> types() const {
    std::vector<ScalarType> types;
    for (const test::DeviceRoutine& one : test::all_device_routines()) {
      if (one.routine == routine()) types.push_back(one.type);
    }
    return types;
  }

  /// Runs one in `step` of the variants in every type, another one each time, with all placements in turn. alpha is 1
  /// or another number.
  void run_some(DeviceRunner& runner, const Size& size, int step, Level3Case base = {}) {
    for (const ScalarType type : types()) {
      for (const Side side : test::all_sides) {
        const Level3Case shape = triangular_case(routine(), side, size.order, size.right_hand_sides);
        base.routine = routine();
        base.m = shape.m;
        base.n = shape.n;
        test::for_each_variant(type, base, [&](Level3Case c) {
          if (c.side != side || turn_++ % step != 0 || HasFailure()) return;
          ++count_;
          c.alpha = count_ % 3 == 0 ? AnyScalar(1) : test::factors(type).back();
          c.padding = count_ % 2 == 0 ? 0 : 3;
          const Placement placement{.misaligned = count_ % 5 < 2, .with_workspace = count_ % 4 < 2};
          dispatch(type, [&]<Scalar T>(T) { runner.run_and_check<T>(c, placement); });
        });
      }
    }
  }

 private:
  int turn_ = 0;
  int count_ = 0;
};

TEST_P(DeviceRoutineConformance, AllVariants) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  DeviceRunner runner(*implementation);
  run_some(runner, {37, 3}, 1);
  if (!kind().is_slow()) run_some(runner, {70, 33}, 1);
  if (kind().name != ImplementationKind::cuda) return;
  run_some(runner, {600, 1}, 29);
  run_some(runner, {1100, 3}, 29);
}

TEST_P(DeviceRoutineConformance, EverySmallSize) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  DeviceRunner runner(*implementation);
  for (index_t order = 1; order <= 70; ++order) {
    if (kind().is_slow() && order % 9 != 0 && order % 16 > 1) continue;
    run_some(runner, {order, 1 + order % 19}, kind().is_slow() ? 29 : kind().name == ImplementationKind::cuda ? 1 : 3);
  }
}

TEST_P(DeviceRoutineConformance, AroundBlocks) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  DeviceRunner runner(*implementation);
  for (const Size& size : {Size{127, 5}, Size{128, 16}, Size{129, 17}, Size{255, 1}, Size{256, 33}, Size{257, 2},
                           Size{300, 9}, Size{513, 3}, Size{5, 1030}}) {
    const bool takes_long = size.order * size.order * size.right_hand_sides > index_t{1} << 20;
    run_some(runner, size, kind().is_slow() ? 127 : takes_long ? 17 : 11);
  }
}

TEST_P(DeviceRoutineConformance, LargeTriangles) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  DeviceRunner runner(*implementation);
  if (kind().is_slow()) {
    run_some(runner, {1000, 2}, 97);
    return;
  }
  run_some(runner, {1000, 7}, 23);
  if (kind().name == ImplementationKind::cuda) run_some(runner, {4096, 5}, 31);
}

TEST_P(DeviceRoutineConformance, ManyRightHandSides) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  DeviceRunner runner(*implementation);
  if (kind().is_slow()) return run_some(runner, {33, 100}, 97);  // its code does not depend on their number
  run_some(runner, {33, 4097}, 41);
  run_some(runner, {260, 1100}, 53);
}

TEST_P(DeviceRoutineConformance, WhateverTheTriangle) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  DeviceRunner runner(*implementation);
  for (const Triangle triangle : {Triangle::ones, Triangle::graded, Triangle::kahan, Triangle::subnormal}) {
    for (const index_t order : {5, 33, 70}) {
      run_some(runner, {order, kind().is_slow() ? 2 : 17}, kind().is_slow() ? 23 : 1, {.triangle = triangle});
    }
  }
}

// A solve with few right-hand sides is one launch. One column, or one row, may have a kernel of its own.
TEST_P(DeviceRoutineConformance, FewRightHandSides) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  DeviceRunner runner(*implementation);
  for (const Triangle triangle : {Triangle::dominant, Triangle::subnormal}) {
    for (const Size& size : {Size{130, 1}, Size{530, 1}, Size{530, 9}, Size{1041, 40}}) {
      if (kind().is_slow() && size.order > 530) continue;
      run_some(runner, size, kind().is_slow() ? 61 : size.order > 530 ? 19 : 3, {.triangle = triangle});
    }
  }
}

// The result is zero, and nothing is read: A and B hold NaN.
TEST_P(DeviceRoutineConformance, AlphaZero) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  DeviceRunner runner(*implementation);
  for (const ScalarType type : types()) {
    for (const Side side : test::all_sides) {
      Level3Case c = triangular_case(routine(), side, 300, 17);
      c.alpha = 0;
      dispatch(type, [&]<Scalar T>(T) { runner.run_and_check<T>(c, {.misaligned = true, .with_workspace = true}); });
    }
  }
}

TEST_P(DeviceRoutineConformance, SameBitsEachTime) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  DeviceRunner runner(*implementation);
  const int rounds = kind().name == ImplementationKind::cuda ? 25 : 3;
  const Size size = kind().is_slow()                          ? Size{70, 5}
                    : kind().name == ImplementationKind::cuda ? Size{900, 200}
                                                              : Size{300, 33};
  for (const ScalarType type : types()) {
    for (const Side side : test::all_sides) {
      for (const bool with_workspace : {false, true}) {
        if (kind().is_slow() && with_workspace) continue;
        const index_t columns = with_workspace ? size.right_hand_sides : 10;
        dispatch(type, [&]<Scalar T>(T) {
          const Level3Fixture<T> problem(triangular_case(routine(), side, size.order, columns), 1);
          std::vector<T> first;
          for (int round = 0; round < rounds; ++round) {
            Level3Fixture<T> fixture = problem;
            runner.run(fixture, {.with_workspace = with_workspace});
            if (round == 0) first = fixture.C();
            ASSERT_EQ(std::memcmp(first.data(), fixture.C().data(), first.size() * sizeof(T)), 0) << "round " << round;
          }
        });
      }
    }
  }
}

// Elements beside the triangle, and the zeros of padding, enter no product: an infinity reaches only the elements that
// depend on it.
TEST_P(DeviceRoutineConformance, KeepsAnInfinityWhereItBelongs) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  constexpr index_t order = 40, at = 9;
  for (const ScalarType type : types()) {
    if (is_complex(type)) continue;  // for complex numbers the product of an infinity and a number has NaN parts
    dispatch(type, [&]<Scalar T>(T) {
      if constexpr (std::floating_point<T>) {
        std::vector<T> A(order * order, T(1)), B(2 * order, T(1));
        B[at] = std::numeric_limits<T>::infinity();
        std::byte* const dev_A = implementation->allocate(A.size() * sizeof(T));
        std::byte* const dev_B = implementation->allocate(B.size() * sizeof(T));
        implementation->write(dev_A, reinterpret_cast<const std::byte*>(A.data()), A.size() * sizeof(T));
        implementation->write(dev_B, reinterpret_cast<const std::byte*>(B.data()), B.size() * sizeof(T));
        Level3 call{.routine = routine(), .type = type, .m = order, .n = 2};
        call.A = dev_A;
        call.lda = call.ldc = order;
        call.C = dev_B;
        if (routine() == Routine::trmm) call.B = dev_B, call.ldb = order;
        implementation->run(call);
        implementation->read(reinterpret_cast<std::byte*>(B.data()), dev_B, B.size() * sizeof(T));
        for (index_t i = 0; i < 2 * order; ++i) {
          const bool reached = i >= at && i < order;
          EXPECT_EQ(std::isfinite(B[static_cast<std::size_t>(i)]), !reached) << i;
        }
      }
    });
  }
}

std::string name_of_instance(const ::testing::TestParamInfo<DeviceRoutineConformance::ParamType>& info) {
  return name_of(std::get<Routine>(info.param));
}

#define TESSERA_INSTANTIATE_CONFORMANCE(prefix, kind)                                                            \
  INSTANTIATE_TEST_SUITE_P(prefix, DeviceRoutineConformance,                                                     \
                           ::testing::Combine(::testing::Values(ImplementationKind{ImplementationKind::kind}),   \
                                              ::testing::ValuesIn(test::distinct(test::all_device_routines()))), \
                           name_of_instance)
TESSERA_INSTANTIATE_CONFORMANCE(Reference, reference);
TESSERA_INSTANTIATE_CONFORMANCE(Block, block);
#if TESSERA_HAS_CUDA
TESSERA_INSTANTIATE_CONFORMANCE(Cuda, cuda);
TESSERA_INSTANTIATE_CONFORMANCE(Standin, cuda_standin);
#endif

}  // namespace conformance_test
}  // namespace tessera
