// NaN, infinities, signed zeros, subnormal and huge numbers as elements, on every backend: products, factorizations,
// and problems that one device solves whole. An element that is not finite in the textbook's loops is not finite here;
// all others are finite. Only kernels of triangles and of QR may differ: they multiply by zeros that the loops leave
// out (the other half, also of T). Where LAPACK reports a breakdown, so does Tessera.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/config.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/dense_solvers.hpp"
#include "routines/lapack.hpp"
#include "routines/level3.hpp"
#include "runtime/runtime.hpp"
#include "tests/dense_fixture.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/cholesky_problem.hpp"
#include "tests/routines/columns_problem.hpp"
#include "tests/special_values.hpp"

namespace tessera::routines {
namespace special_values_test {

using kernels::PanelKind;
using test::SpecialValue;

constexpr index_t tile = 16;

class SpecialValuesConformance : public ::testing::TestWithParam<test::BackendParam> {
 protected:
  void SetUp() override {
    opened_ = test::open_devices(GetParam());
    if (!opened_.missing.empty()) {
      if (test::cuda_required()) FAIL() << opened_.missing;
      GTEST_SKIP() << opened_.missing;
    }
    runtime_ =
        std::make_unique<runtime::Runtime>(std::move(opened_.accelerators), Config{}, &kernels::reference_level3);
  }

  /// f.operator()<T>() for all types.
  template <class F>
  static void for_each_type(F&& f) {
    for (const ScalarType type : test::all_types) dispatch(type, [&]<Scalar T>(T) { f.template operator()<T>(); });
  }

  test::OpenedDevices opened_;
  std::unique_ptr<runtime::Runtime> runtime_;
};

// --- products and solves of Level 3 ---

/// Which elements of C are finite, in the loops of the textbook and on devices.
template <Scalar T>
void expect_same_finite(runtime::Runtime& runtime, test::Level3Fixture<T>& fixture) {
  std::vector<T> expected = fixture.C();
  Level3 call = fixture.problem();
  const bool is_in_place = call.B == call.C;
  call.C = expected.data();
  if (is_in_place) call.B = call.C;
  kernels::reference_level3(call);
  run(runtime, fixture.problem(), tile);
  for (std::size_t at = 0; at < expected.size(); ++at) {
    if (test::is_finite(expected[at]) && call.is_triangular()) continue;
    ASSERT_EQ(test::is_finite(fixture.C()[at]), test::is_finite(expected[at]))
        << fixture.parameters() << ": element " << at << " is " << fixture.C()[at] << ", not " << expected[at];
  }
}

TEST_P(SpecialValuesConformance, ProductsAndSolves) {
  unsigned seed = 1;
  for (const Routine routine : test::all_routines) {
    const test::Level3Case base{
        .routine = routine, .m = 3 * tile + 5, .n = 2 * tile + 3, .k = 2 * tile + 1, .alpha = 0.75, .beta = -1.5};
    for (const ScalarType type : test::types_of(routine)) {
      test::for_each_variant(type, base, [&](const test::Level3Case& c) {
        dispatch(type, [&]<Scalar T>(T) {
          ++seed;
          const auto put = [&](SpecialValue value, index_t matrix, index_t place) {
            test::Level3Fixture<T> fixture(c, seed);
            const Level3 problem = fixture.problem();
            std::vector<T>* const elements[] = {&fixture.A(), &fixture.B(), &fixture.C()};
            const StoredShape shapes[] = {shape_of_a(problem), shape_of_b(problem), {problem.m, problem.n}};
            const index_t lds[] = {problem.lda, problem.ldb, problem.ldc};
            if (elements[matrix]->empty()) return;
            auto [i, j] = test::places(shapes[matrix].rows, shapes[matrix].cols)[static_cast<std::size_t>(place)];
            const bool is_triangle = matrix == 0 ? !problem.has_k() : matrix == 2 && problem.updates_triangle();
            if (is_triangle && (problem.uplo == Uplo::lower) != (i > j)) std::swap(i, j);
            (*elements[matrix])[static_cast<std::size_t>(i + j * lds[matrix])] = test::special<T>(value);
            expect_same_finite(*runtime_, fixture);
          };
          for (index_t matrix = 0; matrix < 3; ++matrix) {
            // Each variant has some of the places, all of them together have all.
            put(SpecialValue::nan, matrix, (seed + 2) % 9);
            put(test::not_finite[seed % 3], matrix, seed % 9);
          }
        });
      });
    }
  }
}

// --- factorizations ---

TEST_P(SpecialValuesConformance, LuQrAndLq) {
  for (const PanelKind kind : {PanelKind::lu, PanelKind::qr, PanelKind::lq}) {
    for (const auto& [m, n, columns] : {std::array<index_t, 3>{75, 75, tile}, {90, 40, 40}, {40, 60, tile}}) {
      // The reference is one of panels.
      if (kind == PanelKind::qr ? m < n : kind == PanelKind::lq && m > n) continue;
      const test::ColumnsCase c{.kind = kind, .m = m, .n = n};
      for_each_type([&, width = columns]<Scalar T>() {
        unsigned seed = 1;
        for (const auto& [i, j] : test::places(m, n)) {
          const auto factor = [&, i = i, j = j](SpecialValue value) {
            test::ColumnsFixture<T> fixture(c, seed);
            fixture.element(i, j) = test::special<T>(value);
            fixture.begin_anew();
            const index_t info = fixture.run(*runtime_, width).info;
            const bool is_usual =
                std::ranges::find(test::unusual_but_finite, value) != std::end(test::unusual_but_finite);
            EXPECT_TRUE(is_usual ? fixture.check(info) : fixture.check_what_is_finite(info))
                << letter(scalar_type_of<T>()) << ' ' << name_of(value) << " at " << i << ", " << j << ", columns of "
                << width;
          };
          ++seed;
          for (const SpecialValue value : test::unusual_but_finite) factor(value);
          factor(SpecialValue::nan);
          // Complex infinities divided by each other are NaN or not by how it is done.
          if (!is_complex(scalar_type_of<T>())) factor(SpecialValue::infinity);
          factor(SpecialValue::huge);
        }
      });
    }
  }
}

TEST_P(SpecialValuesConformance, LuOfNothingElse) {
  for_each_type([&]<Scalar T>() {
    using Real = decltype(std::abs(T{}));
    const auto factor = [&](auto value_at) {
      test::ColumnsFixture<T> fixture({.m = 70, .n = 70}, 7);
      for (index_t j = 0; j < 70; ++j) {
        for (index_t i = 0; i < 70; ++i) fixture.element(i, j) = value_at(fixture.element(i, j), j);
      }
      fixture.begin_anew();
      return std::pair(fixture.run(*runtime_, tile).info, fixture);
    };
    const auto [of_nan, nans] = factor([](T, index_t) { return test::special<T>(SpecialValue::nan); });
    EXPECT_TRUE(nans.check_what_is_finite(of_nan));
    const auto [of_zeros, zeros] = factor([](T, index_t) { return T(Real(-0.0)); });
    EXPECT_EQ(of_zeros, 1);
    // A column so small that the reciprocals of its elements overflow.
    const auto [of_tiny, tiny] = factor(
        [](T element, index_t j) { return j % 7 == 3 ? element * (std::numeric_limits<Real>::min() / 64) : element; });
    EXPECT_TRUE(tiny.check(of_tiny));
    auto [of_huge, huge] = factor([](T element, index_t) { return element * (std::numeric_limits<Real>::max() / 2); });
    index_t odd = 0;
    for (index_t j = 0; j < 70; ++j) {
      for (index_t i = 0; i < 70; ++i) odd += test::is_finite(huge.element(i, j)) ? 0 : 1;
    }
    EXPECT_GT(odd, 0) << "elimination overflows";
  });
}

TEST_P(SpecialValuesConformance, Cholesky) {
  constexpr index_t n = 75;
  for (const Uplo uplo : test::all_uplos) {
    for_each_type([&]<Scalar T>() {
      for (const auto& [i, j] : test::places(n, n)) {
        for (const SpecialValue value : {SpecialValue::nan, SpecialValue::infinity, SpecialValue::minus_infinity,
                                         SpecialValue::minus_zero, SpecialValue::subnormal}) {
          const bool is_finite = value > SpecialValue::minus_infinity;
          if (is_finite && i == j) continue;  // not positive definite, which other tests have
          test::CholeskyFixture<T> fixture({.uplo = uplo, .n = n}, 3);
          fixture.element(i, j) = test::special<T>(value);
          fixture.begin_anew();
          const index_t info = cholesky(*runtime_, fixture.call(), tile).info;
          EXPECT_TRUE(is_finite ? fixture.check(info, n) : fixture.check_what_is_finite(info))
              << letter(scalar_type_of<T>()) << ' ' << name_of(value) << " at " << i << ", " << j;
        }
      }
    });
  }
}

// --- problems that one device solves whole ---

/// Those that do not iterate. The others' are answered before any device has them, or by LAPACK.
const std::vector<LapackCall>& direct_problems() {
  using enum Routine;
  static const std::vector<LapackCall> problems = {
      {.routine = ungqr, .m = 60, .n = 40, .k = 40},
      {.routine = unglq, .m = 40, .n = 60, .k = 40},
      {.routine = unmqr, .m = 60, .n = 40, .k = 40},
      {.routine = unmlq, .m = 60, .n = 40, .k = 40},
      {.routine = unmtr, .m = 40, .n = 60},
      {.routine = larfb, .m = 60, .n = 40, .k = 30},
      {.routine = trtrs, .n = 60, .k = 5},
      {.routine = trtri, .n = 60},
      {.routine = trtri, .uplo = Uplo::upper, .n = 60},
      {.routine = lauum, .n = 60},
      {.routine = lauum, .uplo = Uplo::upper, .n = 60},
      {.routine = potri, .n = 60},
      {.routine = potri, .uplo = Uplo::upper, .n = 60},
      {.routine = getri, .n = 60},
  };
  return problems;
}

template <Scalar T>
index_t not_finite_in_results(const LapackCall& problem) {
  index_t count = 0;
  for (const LapackOperand& operand : LapackOperands(problem)) {
    if (!operand.writes || !operand.has_ld()) continue;
    for (index_t j = 0; j < operand.cols; ++j) {
      for (index_t i = 0; i < operand.rows; ++i) {
        const bool is_written =
            operand.written_part == Part::full || i == j || (operand.written_part == Part::lower) == (i > j);
        if (is_written && !test::is_finite(reinterpret_cast<const T*>(operand.address)[i + j * operand.ld])) ++count;
      }
    }
  }
  return count;
}

TEST_P(SpecialValuesConformance, ProblemsOfOneDevice) {
  for (const LapackCall& form : direct_problems()) {
    for_each_type([&]<Scalar T>() {
      for (const auto& [i, j] : {std::pair<index_t, index_t>{25, 3}, {7, 3}, {29, 27}}) {
        for (const SpecialValue value : {SpecialValue::nan, SpecialValue::infinity}) {
          if (value == SpecialValue::infinity && form.routine != Routine::lauum && form.routine != Routine::larfb)
            continue;  // a division by it leaves zero
          test::DenseFixture<T> fixture(form, 5);
          const bool is_upper = fixture.problem().uplo == Uplo::upper, is_wide = is(form.routine, in_rows);
          fixture.at(LapackSlot::A, is_upper || is_wide ? j : i, is_upper || is_wide ? i : j) = test::special<T>(value);
          fixture.begin_anew();
          const runtime::JobStatistics job = solve_dense(*runtime_, fixture.problem(), {}, tile);
          EXPECT_EQ(job.info, 0);
          EXPECT_GT(not_finite_in_results<T>(fixture.problem()), 0)
              << fixture.problem() << ' ' << name_of(value) << " at " << i << ", " << j;
        }
      }
    });
  }
}

TESSERA_INSTANTIATE_BACKENDS(SpecialValuesConformance);

}  // namespace special_values_test
}  // namespace tessera::routines
