// TileOps::add on every backend: all types, parts and factors, with ld > rows, and nothing outside the part touched. And
// TileOps::mirror, likewise.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/device/backends.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace addition_conformance {

class AdditionConformance : public ::testing::TestWithParam<test::BackendParam> {};

template <Scalar T>
void expect_right(device::Device& device, kernels::TileOps& ops, std::byte* slab, Part part, bool hermitian, index_t m,
                  index_t n, AnyScalar factor, unsigned seed) {
  constexpr index_t size = sizeof(T);
  const index_t ldx = m + 3;
  const index_t ldc = m + 1;
  std::mt19937_64 random(seed);
  std::vector<T> X = test::random_matrix<T>(m, n, ldx, random);
  std::vector<T> C = test::random_matrix<T>(m, n, ldc, random);
  std::vector<T> expected = C;
  for (index_t j = 0; j < n; ++j) {
    for (index_t i = 0; i < m; ++i) {
      const bool inside = part == Part::full || (part == Part::lower ? i >= j : i <= j);
      T& x = X[static_cast<std::size_t>(i + j * ldx)];
      if (!inside) {
        x = test::poison<T>();
        continue;
      }
      T value = x;
      if (hermitian && i == j) {
        value = T(std::real(x));
        if constexpr (!std::floating_point<T>)
          x = T(std::real(x), std::numeric_limits<typename T::value_type>::quiet_NaN());
      }
      expected[static_cast<std::size_t>(i + j * ldc)] += scalar_cast<T>(factor) * value;
    }
  }
  std::byte* const dev_X = slab;
  std::byte* const dev_C = slab + ldx * n * size;
  const auto block = [](void* address, index_t ld) {
    return device::Block{static_cast<std::byte*>(address), ld * size};
  };
  device.copy_up(block(dev_X, ldx), block(X.data(), ldx), {ldx * size, n});
  device.copy_up(block(dev_C, ldc), block(C.data(), ldc), {ldc * size, n});
  device.wait({device::StreamKind::compute, 1}, device.record({device::StreamKind::up}));
  ops.add(1, {.type = scalar_type_of<T>(),
              .part = part,
              .hermitian = hermitian,
              .m = m,
              .n = n,
              .factor = factor,
              .X = dev_X,
              .ldx = ldx,
              .C = dev_C,
              .ldc = ldc});
  device.wait({device::StreamKind::down}, device.record({device::StreamKind::compute, 1}));
  device.copy_down(block(C.data(), ldc), block(dev_C, ldc), {ldc * size, n});
  ASSERT_EQ(test::finish(device, {device::StreamKind::down}), device::EventStatus::complete);
  for (index_t j = 0; j < n; ++j) {
    for (index_t i = 0; i < ldc; ++i) {
      const auto at = static_cast<std::size_t>(i + j * ldc);
      if (i < m && expected[at] == expected[at]) {
        const auto tolerance = 8 * std::numeric_limits<decltype(std::abs(T{}))>::epsilon();
        EXPECT_LE(std::abs(C[at] - expected[at]), tolerance * (std::abs(expected[at]) + 4));
      } else {
        EXPECT_EQ(std::memcmp(&C[at], &expected[at], sizeof(T)), 0) << "padding at " << i << ", " << j;
      }
    }
  }
}

TEST_P(AdditionConformance, AddsWhatItShould) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::byte* const slab = opened.device(0).reserve(std::size_t{4} << 20);
  unsigned seed = 1;
  for (const ScalarType type : test::all_types) {
    for (const AnyScalar factor : {AnyScalar(1), AnyScalar(-0.5, 0.75)}) {
      dispatch(type, [&]<Scalar T>(T) {
        for (const index_t m : {1, 31, 300}) {
          expect_right<T>(opened.device(0), opened.ops(0), slab, Part::full, false, m, 17, factor, seed++);
          for (const Part part : {Part::lower, Part::upper}) {
            for (const bool hermitian : {false, true}) {
              if (m < 300)
                expect_right<T>(opened.device(0), opened.ops(0), slab, part, hermitian, m, m, factor, seed++);
            }
          }
        }
      });
    }
  }
}

TESSERA_INSTANTIATE_BACKENDS(AdditionConformance);

class MirrorConformance : public ::testing::TestWithParam<test::BackendParam> {};

template <Scalar T>
void expect_mirrored(device::Device& device, kernels::TileOps& ops, std::byte* slab, Part stored, bool hermitian,
                     index_t n, unsigned seed) {
  constexpr index_t size = sizeof(T);
  const index_t lda = n + 3;
  std::mt19937_64 random(seed);
  std::vector<T> A = test::random_matrix<T>(n, n, lda, random);
  const auto at = [lda](index_t i, index_t j) { return static_cast<std::size_t>(i + j * lda); };
  std::vector<T> expected = A;
  for (index_t j = 0; j < n; ++j) {
    for (index_t i = 0; i < n; ++i) {
      const bool inside = stored == Part::lower ? i > j : i < j;
      if (inside) {
        T image = A[at(i, j)];
        if constexpr (!std::floating_point<T>) image = hermitian ? std::conj(image) : image;
        expected[at(j, i)] = image;
      } else if (i == j && hermitian) {
        expected[at(i, i)] = T(std::real(A[at(i, i)]));
        if constexpr (!std::floating_point<T>)
          A[at(i, i)] = T(std::real(A[at(i, i)]), std::numeric_limits<typename T::value_type>::quiet_NaN());
      } else if (i != j) {
        A[at(i, j)] = test::poison<T>();
      }
    }
  }
  const device::Block on_device{slab, lda * size};
  const device::Block host{reinterpret_cast<std::byte*>(A.data()), lda * size};
  device.copy_up(on_device, host, {lda * size, n});
  device.wait({device::StreamKind::compute, 1}, device.record({device::StreamKind::up}));
  ops.mirror(1, {.type = scalar_type_of<T>(), .stored = stored, .hermitian = hermitian, .n = n, .A = slab, .lda = lda});
  device.wait({device::StreamKind::down}, device.record({device::StreamKind::compute, 1}));
  device.copy_down(host, on_device, {lda * size, n});
  ASSERT_EQ(test::finish(device, {device::StreamKind::down}), device::EventStatus::complete);
  for (std::size_t e = 0; e < A.size(); ++e)
    ASSERT_EQ(std::memcmp(&A[e], &expected[e], sizeof(T)), 0) << e << ", order " << n;
}

TEST_P(MirrorConformance, FillsTheOtherTriangle) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::byte* const slab = opened.device(0).reserve(std::size_t{4} << 20);
  unsigned seed = 1;
  for (const ScalarType type : test::all_types) {
    dispatch(type, [&]<Scalar T>(T) {
      for (const index_t n : {1, 2, 31, 32, 33, 64, 200}) {
        for (const Part stored : {Part::lower, Part::upper}) {
          expect_mirrored<T>(opened.device(0), opened.ops(0), slab, stored, false, n, seed++);
          if (is_complex(type)) expect_mirrored<T>(opened.device(0), opened.ops(0), slab, stored, true, n, seed++);
        }
      }
    });
  }
}

TESSERA_INSTANTIATE_BACKENDS(MirrorConformance);

}  // namespace addition_conformance
}  // namespace tessera
