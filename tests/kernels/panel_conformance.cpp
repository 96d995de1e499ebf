// TileOps::factor_panel and apply_panel on every backend: all types, panels in one piece and, for QR and LQ, in parts.
// L U, Q R and L Q must be the original matrix. Applying the panel to a copy of the original must give what factoring gave in the
// panel.
#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/panel.hpp"
#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_lapack.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"
#include "tests/special_values.hpp"

namespace tessera {
namespace panel_conformance {

using kernels::Panel;
using kernels::PanelKind;

class PanelConformance : public ::testing::TestWithParam<test::BackendParam> {};

/// A panel that a device has factored, and a copy of the original to which the panel is applied.
template <Scalar T>
struct Factored {
  std::vector<T> panel, beside;
  std::vector<std::byte> tail;
  Panel here;  ///< with this tail
};

/// The rows or columns of a panel as it is stored.
index_t rows_of(PanelKind kind, index_t m, index_t n) { return is_in_rows(kind) ? n : m; }
index_t columns_of(PanelKind kind, index_t m, index_t n) { return is_in_rows(kind) ? m : n; }

/// @param A m x n, or of LQ n x m, with a padding of three rows
/// @param columns columns factored at a time
template <Scalar T>
void factor_and_apply(test::OpenedDevices& opened, std::byte* slab, PanelKind kind, index_t m, index_t n,
                      index_t columns, const std::vector<T>& A, Factored<T>& result) {
  device::Device& device = opened.device(0);
  kernels::TileOps& ops = opened.ops(0);
  constexpr index_t size = sizeof(T);
  const index_t ld = rows_of(kind, m, n) + 3, cols = columns_of(kind, m, n);
  result.panel = result.beside = A;
  result.tail.resize(static_cast<std::size_t>(kernels::tail_bytes(kind, scalar_type_of<T>(), n)));
  const auto on_device = [&](index_t number) { return slab + number * (ld * cols * size + 256) / 256 * 256; };
  const auto block = [](void* address, index_t pitch) {
    return device::Block{static_cast<std::byte*>(address), pitch};
  };
  for (const index_t number : {0, 1})
    device.copy_up(block(on_device(number), ld * size), block(result.panel.data(), ld * size), {ld * size, cols});
  device.wait({device::StreamKind::compute, 2}, device.record({device::StreamKind::up}));
  const Panel on{kind, scalar_type_of<T>(), m, n, on_device(0), ld, on_device(2)};
  for (index_t first = 0; first < n; first += columns) ops.factor_panel(2, on, first, std::min(columns, n - first));
  ops.apply_panel(2, {on, n, on_device(1), ld});
  device.wait({device::StreamKind::down}, device.record({device::StreamKind::compute, 2}));
  const auto tail_size = static_cast<index_t>(result.tail.size());
  device.copy_down(block(result.panel.data(), ld * size), block(on_device(0), ld * size), {ld * size, cols});
  device.copy_down(block(result.beside.data(), ld * size), block(on_device(1), ld * size), {ld * size, cols});
  device.copy_down(block(result.tail.data(), tail_size), block(on_device(2), tail_size), {tail_size, 1});
  ASSERT_EQ(test::finish(device, {device::StreamKind::down}), device::EventStatus::complete);
  result.here = on;
  result.here.tail = result.tail.data();
}

template <Scalar T>
std::vector<T> random_panel(index_t m, index_t n) {
  std::mt19937_64 random(static_cast<unsigned>(m + n));
  return test::random_matrix<T>(m, n, m + 3, random);
}

/// Applying the panel to the copy of the original gives U or R above zeros, or L beside zeros.
template <Scalar T>
void expect_right(test::OpenedDevices& opened, std::byte* slab, PanelKind kind, index_t m, index_t n, index_t columns) {
  using Real = decltype(std::abs(T{}));
  const index_t rows = rows_of(kind, m, n), ld = rows + 3;
  const std::vector<T> A = random_panel<T>(rows, columns_of(kind, m, n));
  Factored<T> result;
  ASSERT_NO_FATAL_FAILURE(factor_and_apply(opened, slab, kind, m, n, columns, A, result));
  const std::vector<T>&panel = result.panel, &C = result.beside;
  if (kind == PanelKind::lu) {
    const kernels::PivotTail tail = kernels::pivot_tail(result.here);
    EXPECT_EQ(*tail.info, 0);
    for (index_t i = 0; i < n; ++i) {
      EXPECT_GE(tail.pivots[i], i + 1);
      EXPECT_LE(tail.pivots[i], m);
    }
  }
  const double tolerance = 300 * static_cast<double>(std::numeric_limits<Real>::epsilon());
  for (index_t j = 0; j < columns_of(kind, m, n); ++j) {
    for (index_t i = 0; i < ld; ++i) {
      const auto at = static_cast<std::size_t>(i + j * ld);
      if (i >= rows) {
        ASSERT_EQ(std::memcmp(&panel[at], &A[at], sizeof(T)) | std::memcmp(&C[at], &A[at], sizeof(T)), 0) << "padding";
      } else {
        const T expected = (is_in_rows(kind) ? i >= j : i <= j) ? panel[at] : T(0);
        ASSERT_LE(static_cast<double>(std::abs(C[at] - expected)), tolerance * std::sqrt(static_cast<double>(m)) * 4)
            << kernels::name_of(kind) << ' ' << m << " x " << n << " in " << columns << " at " << i << ", " << j;
      }
    }
  }
}

/// Pivots, info and the places of finite elements are those of the loops of the textbook.
template <Scalar T>
void expect_lapack_pivots(test::OpenedDevices& opened, std::byte* slab, index_t m, index_t n, const std::vector<T>& A,
                          const char* what) {
  const index_t ld = m + 3;
  Factored<T> result;
  ASSERT_NO_FATAL_FAILURE(factor_and_apply(opened, slab, PanelKind::lu, m, n, n, A, result));
  std::vector<T> expected = A;
  std::vector<int> pivots(static_cast<std::size_t>(n));
  int info = 0;
  kernels::LapackBatch one;
  one.type = scalar_type_of<T>();
  one.count = 1;
  one.m.of_all = one.max_m = m;
  one.n.of_all = one.max_n = n;
  one.lda.of_all = ld;
  one.A.first = expected.data();
  one.ipiv.first = pivots.data();
  one.info = &info;
  kernels::reference_lapack_batch(one);
  const kernels::PivotTail tail = kernels::pivot_tail(result.here);
  EXPECT_EQ(*tail.info, info) << what;
  for (index_t j = 0; j < n; ++j) {
    ASSERT_EQ(tail.pivots[j], pivots[static_cast<std::size_t>(j)])
        << what << ", " << letter(one.type) << m << " x " << n << ", column " << j;
    for (index_t i = 0; i < ld; ++i) {
      const auto at = static_cast<std::size_t>(i + j * ld);
      if (test::is_finite(result.panel[at]) == test::is_finite(expected[at])) continue;
      FAIL() << what << ", " << letter(one.type) << m << " x " << n << " at " << i << ", " << j << ": "
             << result.panel[at] << ", not " << expected[at];
    }
  }
}

TEST_P(PanelConformance, WhatIsAppliedIsWhatHasBeenFactored) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::byte* const slab = opened.device(0).reserve(std::size_t{16} << 20);
  opened.ops(0).load_panels();
  for (const ScalarType type : test::all_types) {
    dispatch(type, [&]<Scalar T>(T) {
      for (const PanelKind kind : {PanelKind::lu, PanelKind::qr, PanelKind::lq}) {
        expect_right<T>(opened, slab, kind, 1, 1, 1);
        expect_right<T>(opened, slab, kind, 7, 7, 7);
        expect_right<T>(opened, slab, kind, 300, 33, 33);
        expect_right<T>(opened, slab, kind, 201, 200, 200);
      }
      for (const PanelKind kind : {PanelKind::qr, PanelKind::lq}) {
        expect_right<T>(opened, slab, kind, 300, 130, 64);
        expect_right<T>(opened, slab, kind, 90, 90, 17);
      }
    });
  }
}

TEST_P(PanelConformance, PivotsAreThoseOfLapackWhateverIsInThem) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::byte* const slab = opened.device(0).reserve(std::size_t{16} << 20);
  opened.ops(0).load_panels();
  for (const ScalarType type : test::all_types) {
    dispatch(type, [&]<Scalar T>(T) {
      using Real = decltype(std::abs(T{}));
      for (const auto& [m, n] : {std::pair<index_t, index_t>{1, 1}, {90, 40}, {300, 130}, {2500, 17}}) {
        const std::vector<T> A = random_panel<T>(m, n);
        using enum test::SpecialValue;
        for (const test::SpecialValue value : {nan, infinity, huge, minus_zero, subnormal}) {
          for (const auto& [i, j] : test::places(m, n)) {
            std::vector<T> changed = A;
            changed[static_cast<std::size_t>(i + j * (m + 3))] = test::special<T>(value);
            expect_lapack_pivots(opened, slab, m, n, changed, name_of(value));
          }
        }
        expect_lapack_pivots(opened, slab, m, n, std::vector<T>(A.size(), test::special<T>(nan)), "all NaN");
        const auto expect_right_with_columns_times = [&, m = m, n = n](Real factor, const char* what) {
          std::vector<T> tiny = A;
          for (std::size_t at = 0; at < tiny.size(); ++at) {
            if (static_cast<index_t>(at) / (m + 3) % 5 == 3) tiny[at] *= factor;
          }
          expect_lapack_pivots(opened, slab, m, n, tiny, what);
        };
        constexpr Real least = std::numeric_limits<Real>::min();
        expect_right_with_columns_times(least / 64, "columns whose reciprocals overflow");
        expect_right_with_columns_times(least * 1024, "columns whose reciprocals are large");
        expect_right_with_columns_times(std::sqrt(least) / 64, "columns whose squares underflow");
        expect_lapack_pivots(opened, slab, m, n, A, "a panel behind others");
      }
    });
  }
}

TEST_P(PanelConformance, ReflectorsOfTinyColumnsAreFinite) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::byte* const slab = opened.device(0).reserve(std::size_t{4} << 20);
  opened.ops(0).load_panels();
  for (const ScalarType type : test::all_types) {
    dispatch(type, [&]<Scalar T>(T) {
      using Real = decltype(std::abs(T{}));
      constexpr Real least = std::numeric_limits<Real>::min();
      for (const Real factor : {least / 64, least * 1024, std::sqrt(least) / 64}) {
        constexpr index_t m = 300, n = 33;
        std::vector<T> A = random_panel<T>(m, n);
        for (std::size_t at = 0; at < A.size(); ++at) {
          if (static_cast<index_t>(at) / (m + 3) % 5 == 3) A[at] *= factor;
        }
        Factored<T> result;
        ASSERT_NO_FATAL_FAILURE(factor_and_apply(opened, slab, PanelKind::qr, m, n, n, A, result));
        for (index_t j = 0; j < n; ++j) {
          for (index_t i = 0; i < m; ++i) {
            const auto at = static_cast<std::size_t>(i + j * (m + 3));
            ASSERT_TRUE(test::is_finite(result.panel[at]) && test::is_finite(result.beside[at]))
                << letter(type) << ", columns times " << factor << ": " << i << ", " << j;
          }
        }
      }
    });
  }
}

TESSERA_INSTANTIATE_BACKENDS(PanelConformance);

}  // namespace panel_conformance
}  // namespace tessera
