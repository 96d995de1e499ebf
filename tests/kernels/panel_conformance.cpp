// TileOps::factor_panel and apply_panel on every backend: all types, panels in one piece and, of QR, in parts. L, U and R
// are what makes the original of them, and what is applied to a matrix is what has been applied to the panel.
#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/panel.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace {

using kernels::Panel;
using kernels::PanelKind;

class PanelConformance : public ::testing::TestWithParam<test::BackendParam> {};

/// The matrix beside the panel is a copy of it: what is applied to it leaves U or R above zeros.
template <Scalar T>
void expect_right(test::OpenedDevices& opened, std::byte* slab, PanelKind kind, index_t m, index_t n, index_t columns,
                  bool with_nan = false) {
  using Real = decltype(std::abs(T{}));
  device::Device& device = opened.device(0);
  kernels::TileOps& ops = opened.ops(0);
  constexpr index_t size = sizeof(T);
  const index_t ld = m + 3;
  std::mt19937_64 random(static_cast<unsigned>(m + n));
  std::vector<T> A = test::random_matrix<T>(m, n, ld, random);
  if (with_nan) A[static_cast<std::size_t>(m / 2)] = std::numeric_limits<Real>::quiet_NaN();
  std::vector<T> panel = A, C = A;
  std::vector<std::byte> tail(static_cast<std::size_t>(kernels::tail_bytes(kind, scalar_type_of<T>(), n)));
  const auto on_device = [&](index_t number) { return slab + number * (ld * n * size + 256) / 256 * 256; };
  const auto block = [](void* address, index_t pitch) {
    return device::Block{static_cast<std::byte*>(address), pitch};
  };
  for (const index_t number : {0, 1})
    device.copy_up(block(on_device(number), ld * size), block(A.data(), ld * size), {ld * size, n});
  device.wait({device::StreamKind::compute, 2}, device.record({device::StreamKind::up}));
  const Panel on{kind, scalar_type_of<T>(), m, n, on_device(0), ld, on_device(2)};
  for (index_t first = 0; first < n; first += columns) ops.factor_panel(2, on, first, std::min(columns, n - first));
  ops.apply_panel(2, {on, n, on_device(1), ld});
  device.wait({device::StreamKind::down}, device.record({device::StreamKind::compute, 2}));
  const auto tail_size = static_cast<index_t>(tail.size());
  device.copy_down(block(panel.data(), ld * size), block(on_device(0), ld * size), {ld * size, n});
  device.copy_down(block(C.data(), ld * size), block(on_device(1), ld * size), {ld * size, n});
  device.copy_down(block(tail.data(), tail_size), block(on_device(2), tail_size), {tail_size, 1});
  ASSERT_EQ(test::finish(device, {device::StreamKind::down}), device::EventStatus::complete);
  if (kind == PanelKind::lu) {
    Panel here = on;
    here.tail = tail.data();
    EXPECT_EQ(*kernels::pivot_tail(here).info, 0);
    for (index_t i = 0; i < n; ++i) {
      EXPECT_GE(kernels::pivot_tail(here).pivots[i], i + 1);
      EXPECT_LE(kernels::pivot_tail(here).pivots[i], m);
    }
  }
  if (with_nan) return;
  const double tolerance = 300 * static_cast<double>(std::numeric_limits<Real>::epsilon());
  for (index_t j = 0; j < n; ++j) {
    for (index_t i = 0; i < ld; ++i) {
      const auto at = static_cast<std::size_t>(i + j * ld);
      if (i >= m) {
        ASSERT_EQ(std::memcmp(&panel[at], &A[at], size) | std::memcmp(&C[at], &A[at], size), 0) << "padding";
      } else {
        const T expected = i <= j ? panel[at] : T(0);
        ASSERT_LE(static_cast<double>(std::abs(C[at] - expected)), tolerance * std::sqrt(static_cast<double>(m)) * 4)
            << kernels::name_of(kind) << ' ' << m << " x " << n << " in " << columns << " at " << i << ", " << j;
      }
    }
  }
}

TEST_P(PanelConformance, WhatIsAppliedIsWhatHasBeenFactored) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::byte* const slab = opened.device(0).reserve(std::size_t{16} << 20);
  opened.ops(0).load_panels();
  for (const ScalarType type : test::all_types) {
    dispatch(type, [&]<Scalar T>(T) {
      for (const PanelKind kind : {PanelKind::lu, PanelKind::qr}) {
        expect_right<T>(opened, slab, kind, 1, 1, 1);
        expect_right<T>(opened, slab, kind, 7, 7, 7);
        expect_right<T>(opened, slab, kind, 300, 33, 33);
        expect_right<T>(opened, slab, kind, 201, 200, 200);
      }
      expect_right<T>(opened, slab, PanelKind::qr, 300, 130, 64);
      expect_right<T>(opened, slab, PanelKind::qr, 90, 90, 17);
    });
  }
}

TEST_P(PanelConformance, PivotsAreRowsWhateverIsInThem) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::byte* const slab = opened.device(0).reserve(std::size_t{4} << 20);
  opened.ops(0).load_panels();
  for (const ScalarType type : test::all_types) {
    dispatch(type, [&]<Scalar T>(T) { expect_right<T>(opened, slab, PanelKind::lu, 90, 40, 40, true); });
  }
}

TESSERA_INSTANTIATE_BACKENDS(PanelConformance);

}  // namespace
}  // namespace tessera
