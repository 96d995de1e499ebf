// Calls whose matrices stay on devices: right whatever happens between them, and over the link only once.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "residence/keeper.hpp"
#include "routines/level3.hpp"
#include "tests/level3_problem.hpp"
#include "tests/routines/host_runtime.hpp"

namespace tessera::routines {
namespace residence_test {

using test::HostRuntime;

constexpr index_t tile = 16, n = 6 * tile + 5, ld = n + 3;

HostDeviceSettings with_memory(std::size_t bytes) {
  HostDeviceSettings settings;
  settings.memory_bytes = bytes;
  return settings;
}
Config keeping(std::size_t bytes) {
  Config config;
  config.resident_bytes = bytes;
  return config;
}

/// Small whole numbers, so that sums of products are exact.
struct Matrix {
  explicit Matrix(unsigned seed) : elements(static_cast<std::size_t>(ld * n)) {
    std::mt19937 random(seed);
    for (double& element : elements) element = static_cast<double>(random() % 5);
  }
  residence::HostMatrix host() {
    constexpr auto bytes = static_cast<index_t>(sizeof(double));
    return {reinterpret_cast<std::byte*>(elements.data()), ld * bytes, n * bytes, n};
  }
  double* at(index_t i, index_t j) { return elements.data() + j * ld + i; }
  residence::Range range(index_t i, index_t j) {
    return {reinterpret_cast<std::byte*>(at(i, j)), reinterpret_cast<std::byte*>(at(i, j) + 1)};
  }

  std::vector<double> elements;
};

Level3 product(Matrix& a, Matrix& b, Matrix& c, double beta) {
  Level3 call;
  call.routine = Routine::gemm;
  call.type = ScalarType::d;
  call.m = call.n = call.k = n;
  call.alpha = 1;
  call.beta = beta;
  call.A = a.elements.data(), call.lda = ld;
  call.B = b.elements.data(), call.ldb = ld;
  call.C = c.elements.data(), call.ldc = ld;
  return call;
}

std::int64_t copies_up(const HostRuntime& host) {
  std::int64_t sum = 0;
  for (const device::HostDevice* device : host.devices) sum += device->operations(device::StreamKind::up);
  return sum;
}

TEST(Residence, KnownOperandsAreFetchedOnce) {
  for (const std::size_t devices : {1, 2}) {
    HostRuntime host(std::vector(devices, with_memory(2 << 20)), keeping(1 << 20));
    Matrix a(1), b(2), c(3);
    for (Matrix* matrix : {&a, &b}) ASSERT_TRUE(host.runtime->residence().add(matrix->host()));
    std::int64_t before = 0;
    for (int time = 0; time < 4; ++time) {
      Matrix expected = c;
      kernels::reference_level3(product(a, b, expected, 0));
      const auto job = host.run_or_compute(product(a, b, c, 0), tile);
      ASSERT_TRUE(job);
      EXPECT_EQ(c.elements, expected.elements);
      const std::int64_t copies = copies_up(host) - before;
      before += copies;
      if (time == 0) {
        EXPECT_GE(copies, 2 * 7 * 7);
      }
      // With several devices the tasks of each may be others.
      if (time > 0 && devices == 1) {
        EXPECT_EQ(copies, 0);
        EXPECT_EQ(job->total().misses, 0) << "they are read where they lie";
      }
    }
  }
}

TEST(Residence, AResultIsTheNextOperand) {
  HostRuntime host({with_memory(2 << 20)}, keeping(1 << 20));
  Matrix a(1), b(2), c(3), d(4);
  for (Matrix* matrix : {&a, &b, &c, &d}) ASSERT_TRUE(host.runtime->residence().add(matrix->host()));
  const auto on_devices = [&](Matrix& matrix) { return host.runtime->resident_bytes(std::vector{matrix.host()}); };
  EXPECT_EQ(on_devices(a), 0);
  ASSERT_TRUE(host.run_or_compute(product(a, b, c, 0), tile));
  for (Matrix* matrix : {&a, &b, &c}) EXPECT_EQ(on_devices(*matrix), n * n * index_t{sizeof(double)});
  EXPECT_EQ(on_devices(d), 0);
  host.runtime->residence().drop(a.range(3, 5));
  EXPECT_LT(on_devices(a), n * n * index_t{sizeof(double)});
  EXPECT_GT(on_devices(a), 0);
  ASSERT_TRUE(host.run_or_compute(product(a, b, d, 0), tile));
  const std::int64_t before = copies_up(host);
  Matrix expected = d;
  kernels::reference_level3(product(c, a, expected, 0));
  ASSERT_TRUE(host.run_or_compute(product(c, a, d, 0), tile));
  EXPECT_EQ(copies_up(host), before);
  EXPECT_EQ(d.elements, expected.elements);
}

// Drawn calls on four matrices that stay, writes of the caller between them, memory that is short, devices that fail.
TEST(Residence, IsNeverSeenInResults) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](unsigned most) { return static_cast<index_t>(random() % most); };
    std::vector<HostDeviceSettings> settings(1 + seed % 3, with_memory(seed % 2 == 0 ? 2 << 20 : 200 << 10));
    if (seed % 4 == 3) settings.front().fail_after_ops = 500 + draw(2000);
    HostRuntime host(settings, keeping(seed % 5 == 0 ? 20 << 10 : 512 << 10));
    std::vector<Matrix> matrices;
    for (unsigned m = 0; m < 4; ++m) matrices.emplace_back(seed + m);
    std::vector<Matrix> expected = matrices;
    for (Matrix& matrix : matrices) ASSERT_TRUE(host.runtime->residence().add(matrix.host()));
    for (int step = 0; step < 30; ++step) {
      const index_t a = draw(4), b = draw(4);
      index_t c = draw(4);
      while (c == a || c == b) c = draw(4);
      const double beta = static_cast<double>(draw(2));
      const auto of = [&](std::vector<Matrix>& all) {
        const auto at = [&](index_t which) -> Matrix& { return all[static_cast<std::size_t>(which)]; };
        return product(at(a), at(b), at(c), beta);
      };
      kernels::reference_level3(of(expected));
      static_cast<void>(host.run_or_compute(of(matrices), tile));
      // Small again, by the caller.
      for (std::vector<Matrix>* const all : {&matrices, &expected}) {
        for (double& element : (*all)[static_cast<std::size_t>(c)].elements)
          element = static_cast<double>(static_cast<std::int64_t>(element) % 5);
      }
      if (draw(2) == 0) {
        const Matrix& c_now = matrices[static_cast<std::size_t>(c)];
        ASSERT_EQ(c_now.elements, expected[static_cast<std::size_t>(c)].elements) << seed << ' ' << step;
      }
      auto* const begin = reinterpret_cast<std::byte*>(matrices[static_cast<std::size_t>(c)].elements.data());
      host.runtime->residence().drop({begin, begin + ld * n * sizeof(double)});
    }
    for (std::size_t m = 0; m < 4; ++m) EXPECT_EQ(matrices[m].elements, expected[m].elements) << seed;
  }
}

std::optional<residence::MatrixId> add_lazy(const HostRuntime& host, const residence::HostMatrix& matrix) {
  return host.runtime->residence().add(matrix, residence::Residence::Kind::lazy);
}

TEST(LazyMatrices, ResultsStayUntilTheyAreWanted) {
  for (const std::size_t devices : {1, 2, 3}) {
    HostRuntime host(std::vector(devices, with_memory(2 << 20)), keeping(1 << 20));
    Matrix a(1), b(2), c(3), d(4);
    std::vector<residence::MatrixId> ids;
    for (Matrix* matrix : {&a, &b, &c, &d}) ids.push_back(*add_lazy(host, matrix->host()));
    const Matrix c_before = c;
    Matrix expected_c = c, expected_d = d;
    kernels::reference_level3(product(a, b, expected_c, 0));
    kernels::reference_level3(product(expected_c, a, expected_d, 1));
    const auto job = host.run_or_compute(product(a, b, c, 0), tile, {.always = true});
    ASSERT_TRUE(job);
    EXPECT_FALSE(job->has_cpu_part());
    EXPECT_EQ(job->stayed_bytes, n * n * index_t{sizeof(double)});
    EXPECT_EQ(c.elements, c_before.elements);
    const std::int64_t copies = copies_up(host);
    ASSERT_TRUE(host.run_or_compute(product(c, a, d, 1), tile));
    if (devices == 1) {
      EXPECT_EQ(copies_up(host) - copies, 7 * 7) << "those of D";
    }
    EXPECT_EQ(c.elements, c_before.elements);
    std::vector<double> part(5);
    host.runtime->lazy_matrices().read(ids[2], {3 * sizeof(double), 20, 5 * sizeof(double), 1},
                                       {reinterpret_cast<std::byte*>(part.data()), 5 * sizeof(double)});
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected_c.at(3, 20)));
    EXPECT_EQ(c.elements, c_before.elements);
    host.runtime->lazy_matrices().settle(ids);
    EXPECT_EQ(c.elements, expected_c.elements);
    EXPECT_EQ(d.elements, expected_d.elements);
    EXPECT_FALSE(host.runtime->residence().is_stale(ids[2]));
    EXPECT_GT(host.runtime->resident_bytes(std::vector{c.host()}), 0) << "it stays there, too";
  }
}

TEST(LazyMatrices, TheHostHasWhatItUses) {
  HostRuntime host({with_memory(2 << 20), with_memory(2 << 20)}, keeping(1 << 20));
  Matrix a(1), b(2), c(3);
  for (Matrix* matrix : {&a, &b, &c}) ASSERT_TRUE(add_lazy(host, matrix->host()));
  Matrix expected = c;
  kernels::reference_level3(product(a, b, expected, 0));
  ASSERT_TRUE(host.run_or_compute(product(a, b, c, 0), tile));
  {
    const runtime::HostUse use(host.runtime->lazy_matrices(), routines::touched_by(product(c, b, a, 0)));
    EXPECT_EQ(c.elements, expected.elements);
    kernels::reference_level3(product(c, b, a, 0));
  }
  Matrix expected_b = b;
  kernels::reference_level3(product(a, c, expected_b, 0));
  {
    const runtime::HostUse use(host.runtime->lazy_matrices(), routines::touched_by(product(a, c, b, 0)));
    ASSERT_TRUE(host.run_or_compute(product(a, c, b, 0), tile));
    EXPECT_EQ(b.elements, expected_b.elements);
  }
  EXPECT_EQ(b.elements, expected_b.elements);
}

TEST(LazyMatrices, OthersViewsOfThemAreSettledFirst) {
  HostRuntime host({with_memory(2 << 20)}, keeping(1 << 20));
  Matrix a(1), b(2), c(3), d(4);
  for (Matrix* matrix : {&a, &b, &c}) ASSERT_TRUE(add_lazy(host, matrix->host()));
  Matrix expected = c, expected_d = d;
  kernels::reference_level3(product(a, b, expected, 0));
  ASSERT_TRUE(host.run_or_compute(product(a, b, c, 0), tile));
  Level3 call = product(c, b, d, 0);
  call.lda = 2 * ld;  // every second column of C
  call.k = call.n = n / 2;
  Level3 same = call;
  same.A = expected.elements.data();
  same.C = expected_d.elements.data();
  kernels::reference_level3(same);
  ASSERT_TRUE(host.run_or_compute(call, tile));
  EXPECT_EQ(d.elements, expected_d.elements);
  EXPECT_EQ(c.elements, expected.elements);
}

TEST(LazyMatrices, OldOnesGoHomeWhenMemoryIsShort) {
  constexpr std::size_t bytes = n * n * sizeof(double);
  HostRuntime host({with_memory(4 << 20)}, keeping(8 * bytes));
  Matrix a(1);
  std::vector<Matrix> powers, expected;
  for (unsigned p = 0; p < 9; ++p) powers.emplace_back(p);
  powers.front().elements = a.elements;
  expected = powers;
  std::vector<residence::MatrixId> ids;
  for (Matrix& matrix : powers) ids.push_back(*add_lazy(host, matrix.host()));
  for (std::size_t p = 1; p < 9; ++p) {
    Level3 call = product(a, powers[p - 1], powers[p], 0), same = product(a, expected[p - 1], expected[p], 0);
    call.alpha = same.alpha = 1.0 / 256;
    kernels::reference_level3(same);
    ASSERT_TRUE(host.run_or_compute(call, tile));
  }
  const auto is_stale = [&](std::size_t p) { return host.runtime->residence().is_stale(ids[p]); };
  EXPECT_FALSE(is_stale(1));
  EXPECT_TRUE(is_stale(8));
  EXPECT_TRUE(is_stale(7));
  host.runtime->lazy_matrices().settle(ids);
  for (std::size_t p = 0; p < 9; ++p) {
    for (std::size_t e = 0; e < powers[p].elements.size(); ++e)
      ASSERT_NEAR(powers[p].elements[e], expected[p].elements[e], 1e-9 * std::abs(expected[p].elements[e])) << p;
  }
}

TEST(LazyMatrices, AreLostWithTheirDevice) {
  HostDeviceSettings settings = with_memory(2 << 20);
  settings.failing_operation = FailingOperation::down;
  settings.fail_after_ops = 0;
  HostRuntime host({settings}, keeping(1 << 20));
  Matrix a(1), b(2), c(3), d(4);
  std::vector<residence::MatrixId> ids;
  for (Matrix* matrix : {&a, &b, &c}) ids.push_back(*add_lazy(host, matrix->host()));
  const Matrix expected = a;
  ASSERT_TRUE(host.run_or_compute(product(a, b, c, 0), tile));
  EXPECT_THROW(host.runtime->lazy_matrices().settle({&ids[2], 1}), DeviceLost);
  EXPECT_THROW(static_cast<void>(host.run_or_compute(product(c, b, d, 0), tile)), DeviceLost);
  host.runtime->lazy_matrices().settle({ids.data(), 2});
  EXPECT_EQ(a.elements, expected.elements);
  // Written anew, it is a matrix like others, which the host computes with.
  kernels::reference_level3(product(a, b, c, 0));
  host.runtime->residence().find_again(ids[2]);
  Matrix expected_d = d;
  kernels::reference_level3(product(c, b, expected_d, 0));
  static_cast<void>(host.run_or_compute(product(c, b, d, 0), tile));
  EXPECT_EQ(d.elements, expected_d.elements);
}

/// The caller writes small numbers in all of it.
void make_small(Matrix& matrix) {
  for (double& element : matrix.elements) element = static_cast<double>(static_cast<std::int64_t>(element) % 5);
}

// Drawn calls of several routines on four lazy matrices and blocks of them, the host's uses between them, memory that
// is short, and devices that fail: what is lost is told, and all else is right.
TEST(LazyMatrices, AreNeverSeenInResults) {
  int lost = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](unsigned most) { return static_cast<index_t>(random() % most); };
    std::vector<HostDeviceSettings> settings(1 + seed % 3, with_memory(seed % 2 == 0 ? 2 << 20 : 200 << 10));
    if (seed % 4 == 3) settings.front().fail_after_ops = 500 + draw(2000);
    if (seed % 7 == 6) {
      for (HostDeviceSettings& each : settings) each.peers = false;
    }
    HostRuntime host(settings, keeping(seed % 5 == 0 ? 20 << 10 : 512 << 10));
    std::vector<Matrix> matrices;
    for (unsigned m = 0; m < 4; ++m) matrices.emplace_back(seed + m);
    std::vector<Matrix> expected = matrices;
    std::vector<residence::MatrixId> ids;
    for (Matrix& matrix : matrices) ids.push_back(*add_lazy(host, matrix.host()));
    const auto recover = [&] {
      for (std::size_t m = 0; m < 4; ++m) {
        if (!host.runtime->residence().is_lost(ids[m])) continue;
        ++lost;
        matrices[m].elements = expected[m].elements;
        host.runtime->residence().find_again(ids[m]);
      }
    };
    std::array<double, 4> largest{4, 4, 4, 4};  // at most; sums of products are exact
    const auto look_at = [&](index_t which) {
      const auto m = static_cast<std::size_t>(which);
      try {
        const runtime::HostUse use(host.runtime->lazy_matrices(),
                                   std::vector<device::Touched>{{matrices[m].host(), device::Touched::Use::written}});
        ASSERT_EQ(matrices[m].elements, expected[m].elements) << seed;
        make_small(matrices[m]);
        make_small(expected[m]);
      } catch (const DeviceLost&) {
        EXPECT_EQ(seed % 4, 3U);
        make_small(expected[m]);
        recover();
      }
      largest[m] = 4;
    };
    for (int step = 0; step < 30; ++step) {
      const index_t a = draw(4), b = draw(4);
      index_t c = draw(4);
      while (c == a || c == b) c = draw(4);
      const auto bound = [&](index_t which) -> double& { return largest[static_cast<std::size_t>(which)]; };
      const auto product_bound = [&] {  // of any of the routines
        return std::max({2 * n * bound(a) * bound(b), n * bound(a) * bound(a), n * bound(a) * bound(c)}) + bound(c);
      };
      for (const index_t which : {a, b, c}) {
        if (product_bound() > 1e15) look_at(which);
      }
      const double beta = static_cast<double>(draw(2));
      const index_t first = draw(3) == 0 ? draw(40) : 0;
      const Routine routine =
          std::array{Routine::gemm, Routine::syrk, Routine::trmm, Routine::syr2k}[static_cast<std::size_t>(draw(4))];
      const Uplo uplo = draw(2) == 0 ? Uplo::lower : Uplo::upper;
      bound(c) = product_bound();
      const auto of = [&](std::vector<Matrix>& all) {
        const auto at = [&](index_t which) { return all[static_cast<std::size_t>(which)].at(first, first); };
        Level3 call = product(all[0], all[0], all[0], beta);
        call.routine = routine;
        call.uplo = uplo;
        call.m = call.n = call.k = n - first;
        call.A = at(a), call.B = at(b), call.C = at(c);
        if (routine == Routine::trmm) call.B = call.C, call.ldb = call.ldc;
        return call;
      };
      Matrix& here = matrices[static_cast<std::size_t>(c)];
      Matrix& there = expected[static_cast<std::size_t>(c)];
      kernels::reference_level3(of(expected));
      try {
        static_cast<void>(host.run_or_compute(of(matrices), tile));
      } catch (const DeviceLost&) {
        EXPECT_EQ(seed % 4, 3U);
        recover();
        here.elements = there.elements;
        host.runtime->residence().drop({here.host().address, here.host().pitch_bytes},
                                       {here.host().column_bytes, here.host().columns});
      }
      if (draw(3) == 0) look_at(c);
      if (HasFatalFailure()) return;
    }
    try {
      host.runtime->lazy_matrices().settle(ids);
    } catch (const DeviceLost&) {
      recover();
      host.runtime->lazy_matrices().settle(ids);
    }
    for (std::size_t m = 0; m < 4; ++m) EXPECT_EQ(matrices[m].elements, expected[m].elements) << seed;
  }
  EXPECT_GT(lost, 0);
}

/// Memory whose pages belong to the matrix alone, but for the last one.
struct PagedMatrix {
  explicit PagedMatrix(unsigned seed) : bytes(static_cast<std::size_t>(ld * n) * sizeof(double)) {
    at = static_cast<double*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::mt19937 random(seed);
    for (index_t e = 0; e < ld * n; ++e) at[e] = static_cast<double>(random() % 5);
  }
  ~PagedMatrix() { munmap(at, bytes); }
  PagedMatrix(const PagedMatrix&) = delete;
  PagedMatrix& operator=(const PagedMatrix&) = delete;

  /// The part from row and column `first` on.
  residence::HostMatrix host(index_t first = 0) const {
    constexpr auto size = static_cast<index_t>(sizeof(double));
    return {reinterpret_cast<std::byte*>(at + first * ld + first), ld * size, (n - first) * size, n - first};
  }

  std::size_t bytes;
  double* at;
};

/// C = A B + beta C of the parts from row and column `first` on.
Level3 product(double* a, double* b, double* c, double beta, index_t first) {
  Level3 call;
  call.routine = Routine::gemm;
  call.type = ScalarType::d;
  call.m = call.n = call.k = n - first;
  call.alpha = 1;
  call.beta = beta;
  const index_t offset = first * ld + first;
  call.A = a + offset, call.lda = ld;
  call.B = b + offset, call.ldb = ld;
  call.C = c + offset, call.ldc = ld;
  return call;
}

std::unique_ptr<residence::Keeper> keeper_over(const HostRuntime& host) {
  try {
    return std::make_unique<residence::Keeper>(host.runtime->residence(), [](residence::Range) { return true; });
  } catch (const NotAvailable&) {
    return nullptr;
  }
}

TEST(Residence, MatricesThatStayTheSameBecomeKnown) {
  HostRuntime host({with_memory(2 << 20)}, keeping(1 << 20));
  const auto keeper = keeper_over(host);
  if (!keeper) GTEST_SKIP() << "the kernel does not tell what is written";
  const PagedMatrix a(1), b(2), c(3);
  const std::vector<device::Touched> operands = {{a.host()}, {b.host()}, {c.host(), device::Touched::Use::written}};
  std::int64_t before = 0;
  for (int time = 0; time < 5; ++time) {
    keeper->begin(operands);
    ASSERT_TRUE(host.run_or_compute(product(a.at, b.at, c.at, 0, 0), tile));
    keeper->end(operands);
    const std::int64_t copies = copies_up(host) - before;
    before += copies;
    if (time >= 2) {
      EXPECT_EQ(copies, 0) << time;
    }
  }
  a.at[5 * ld + 70] = 3;
  keeper->begin(operands);
  std::vector<double> expected(static_cast<std::size_t>(ld * n));
  kernels::reference_level3(product(a.at, b.at, expected.data(), 0, 0));
  ASSERT_TRUE(host.run_or_compute(product(a.at, b.at, c.at, 0, 0), tile));
  for (index_t j = 0; j < n; ++j) {
    for (index_t i = 0; i < n; ++i) ASSERT_EQ(c.at[j * ld + i], expected[static_cast<std::size_t>(j * ld + i)]);
  }
  EXPECT_GT(copies_up(host), before);
  EXPECT_LT(copies_up(host), before + 2 * 7);
}

TEST(Residence, OnlyMemoryThatMayBeWatchedIsKnown) {
  HostRuntime host({with_memory(2 << 20)}, keeping(1 << 20));
  if (!keeper_over(host)) GTEST_SKIP() << "the kernel does not tell what is written";
  const PagedMatrix a(1), b(2), c(3);
  const std::vector<device::Touched> operands = {{a.host()}, {b.host()}, {c.host(), device::Touched::Use::written}};
  const std::byte* not_watched = a.host().address;
  residence::Keeper keeper(host.runtime->residence(),
                           [&](residence::Range range) { return range.begin != not_watched; });
  const auto call = [&] {
    keeper.begin(operands);
    ASSERT_TRUE(host.run_or_compute(product(a.at, b.at, c.at, 0, 0), tile));
    keeper.end(operands);
  };
  for (int time = 0; time < 3; ++time) call();
  EXPECT_EQ(keeper.known(), 2U);
  not_watched = b.host().address;  // from now on
  for (int time = 0; time < 3; ++time) call();
  EXPECT_EQ(keeper.known(), 2U);
  const std::int64_t before = copies_up(host);
  call();
  EXPECT_EQ(copies_up(host) - before, 7 * 7) << "those of B";
}

// Writes to watched pages are dear: one of all pages is worth ten copies.
TEST(Residence, WhatIsWrittenTooOftenIsGivenUp) {
  HostRuntime host({with_memory(2 << 20)}, keeping(1 << 20));
  const auto keeper = keeper_over(host);
  if (!keeper) GTEST_SKIP() << "the kernel does not tell what is written";
  PagedMatrix a(1), b(2), c(3);
  const auto use = [&](int times) {
    const std::vector<device::Touched> operands = {{a.host()}, {b.host()}, {c.host(), device::Touched::Use::written}};
    for (int time = 0; time < times; ++time) {
      keeper->begin(operands);
      ASSERT_TRUE(host.run_or_compute(product(a.at, b.at, c.at, 0, 0), tile));
      keeper->end(operands);
    }
  };
  const auto write = [](PagedMatrix& matrix) {
    for (index_t e = 0; e < ld * n; ++e) matrix.at[e] += 1;
  };
  use(15);
  EXPECT_EQ(keeper->known(), 3U);
  write(a);  // it has been used often enough
  use(1);
  EXPECT_EQ(keeper->known(), 2U) << "no write is watched before it is used again as it is";
  use(1);
  EXPECT_EQ(keeper->known(), 3U);
  EXPECT_FALSE(keeper->has_given_up(a.host()));
  write(a);
  use(3);
  EXPECT_EQ(keeper->known(), 2U);
  EXPECT_TRUE(keeper->has_given_up(a.host()));
  EXPECT_FALSE(keeper->has_given_up(b.host()));
  a.at[7] = 3;
  use(3);
  EXPECT_EQ(keeper->known(), 2U);
  b.at[7] = 3;  // one page of many
  use(1);
  EXPECT_EQ(keeper->known(), 2U);
}

/// Of this process, without any of disks.
long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Results in all of a known matrix, and in a part of one.
TEST(Residence, ResultsCostNoFaults) {
  HostRuntime host({with_memory(2 << 20)}, keeping(1 << 20));
  const auto keeper = keeper_over(host);
  if (!keeper) GTEST_SKIP() << "the kernel does not tell what is written";
  const PagedMatrix a(1), b(2), c(3);
  const auto use = [&](const PagedMatrix& x, const PagedMatrix& y, const PagedMatrix& z, index_t first) {
    const std::vector<device::Touched> operands = {
        {x.host(first)}, {y.host(first)}, {z.host(first), device::Touched::Use::written}};
    keeper->begin(operands);
    const long before = page_faults();
    EXPECT_TRUE(host.run_or_compute(product(x.at, y.at, z.at, 0, first), tile));
    const long faults = page_faults() - before;
    keeper->end(operands);
    std::vector<double> expected(z.at, z.at + ld * n);
    kernels::reference_level3(product(x.at, y.at, expected.data(), 0, first));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), z.at)) << first;
    return faults;
  };
  const auto pages = static_cast<long>(a.bytes / residence::WriteWatch::page_bytes());
  long of_all = 0, of_a_part = 0;
  for (int time = 0; time < 2; ++time) {  // the device's memory has its pages the second time
    for (int use_again = 0; use_again < 12; ++use_again) of_all = use(a, b, c, 0);
    EXPECT_EQ(keeper->known(), 3U);
    of_a_part = use(a, b, c, 9);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose own memory costs faults
  EXPECT_LT(of_all, pages / 2);
  EXPECT_LT(of_a_part, pages / 2);
#else
  static_cast<void>(pages + of_all + of_a_part);
#endif
}

/// Calls C = X X of small matrices that lie in memory of others, and are watched.
struct SmallSquares {
  explicit SmallSquares(index_t its_size) : size(its_size), keeper(keeper_over(host)) {}

  /// @param order of X and C; both have columns of `size` elements
  void use(double* x, int times, index_t order) {
    const auto matrix = [&](double* at) {
      return residence::HostMatrix{reinterpret_cast<std::byte*>(at), size * 8, order * 8, order};
    };
    double* const c = result.at;
    Level3 call = product(x, x, c, 0, 0);
    call.m = call.n = call.k = order;
    call.lda = call.ldb = call.ldc = size;
    std::vector<double> expected(c, c + size * size);
    Level3 of_expected = call;
    of_expected.C = expected.data();
    const std::vector<device::Touched> operands = {{matrix(x)}, {matrix(c), device::Touched::Use::written}};
    for (int time = 0; time < times; ++time) {
      kernels::reference_level3(of_expected);
      keeper->begin(operands);
      ASSERT_TRUE(host.run_or_compute(call, tile));
      keeper->end(operands);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), c));
    }
  }

  index_t size;
  HostRuntime host{{with_memory(2 << 20)}, keeping(1 << 20)};
  const PagedMatrix memory{1}, result{2};
  std::unique_ptr<residence::Keeper> keeper;  ///< none where the kernel does not tell what is written
};

// Two matrices in one page, A and B. Of B a part is used, too.
TEST(Residence, MatricesThatShareAPage) {
  constexpr index_t size = 6;
  SmallSquares squares(size);
  if (!squares.keeper) GTEST_SKIP() << "the kernel does not tell what is written";
  double *const a = squares.memory.at, *const b = a + size * size;
  squares.use(a, 3, size);
  squares.use(b, 3, size);
  EXPECT_EQ(squares.keeper->known(), 3U);
  squares.use(b, 2, size - 1);
  EXPECT_EQ(squares.keeper->known(), 3U) << "calls on a part leave the whole as it is";
  a[0] += 1;
  squares.use(b, 2, size - 1);
  squares.use(a, 1, size);
}

// B ends where A begins, in one page. The question for A fails behind that page, of which the kernel has told what was
// written, and will not say it again.
TEST(Residence, AFailedQuestionIsNoAnswerForOthers) {
  constexpr index_t size = 40, elements = size * size;
  SmallSquares squares(size);
  if (!squares.keeper) GTEST_SKIP() << "the kernel does not tell what is written";
  double *const b = squares.memory.at, *const a = b + elements;
  const std::size_t page = residence::WriteWatch::page_bytes();
  ASSERT_NE(elements * sizeof(double) % page, 0U);
  squares.use(b, 3, size);
  squares.use(a, 3, size);
  EXPECT_EQ(squares.keeper->known(), 3U);
  a[-1] += 1;
  auto* const behind = reinterpret_cast<std::byte*>(b) + (elements * sizeof(double) / page + 1) * page;
  // Of a file, so that the pages of A cannot be left unwatched in one step either.
  std::FILE* const zeros = std::tmpfile();
  ASSERT_EQ(ftruncate(fileno(zeros), static_cast<off_t>(page)), 0);
  ASSERT_NE(mmap(behind, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fileno(zeros), 0), MAP_FAILED);
  std::fclose(zeros);
  squares.use(a, 1, size);
  squares.use(b, 1, size);
}

// The first call of a product sees its operands, the second one watches them, and the third one finds them.
TEST(Residence, ARuntimeKeepsWhatIsUsedAgain) {
  for (const Resident mode : {Resident::off, Resident::automatic, Resident::verified}) {
    Config config;
    config.resident = mode;
    config.watches_any_memory = true;
    HostRuntime host({with_memory(4 << 20)}, config);
    if (!keeper_over(host)) GTEST_SKIP() << "the kernel does not tell what is written";
    const PagedMatrix a(1), b(2), c(3);
    std::vector<double> expected(static_cast<std::size_t>(ld * n));
    for (int time = 0; time < 5; ++time) {
      const bool has_changed = time == 3;
      if (has_changed) a.at[5 * ld + 70] = 9;
      kernels::reference_level3(product(a.at, b.at, expected.data(), 0, 0));
      const auto job = host.run_or_compute(product(a.at, b.at, c.at, 0, 0), tile);
      ASSERT_TRUE(job);
      for (index_t j = 0; j < n; ++j) {
        for (index_t i = 0; i < n; ++i) ASSERT_EQ(c.at[j * ld + i], expected[static_cast<std::size_t>(j * ld + i)]);
      }
      constexpr index_t both = 2 * n * n * index_t{sizeof(double)};
      if (mode == Resident::off || time < 2) {
        EXPECT_EQ(job->resident_bytes, 0) << time;
      } else if (has_changed) {
        EXPECT_GT(job->resident_bytes, both / 2);
        EXPECT_LT(job->resident_bytes, both);
      } else {
        EXPECT_EQ(job->resident_bytes, both) << time;
      }
    }
  }
}

TEST(Residence, NobodyHasToSayWhatHeWrites) {
  std::size_t most_known = 0;
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](unsigned most) { return static_cast<index_t>(random() % most); };
    std::vector<HostDeviceSettings> settings(1 + seed % 3, with_memory(seed % 2 == 0 ? 2 << 20 : 200 << 10));
    HostRuntime host(settings, keeping(seed % 5 == 0 ? 20 << 10 : 512 << 10));
    const auto keeper = keeper_over(host);
    if (!keeper) GTEST_SKIP() << "the kernel does not tell what is written";
    std::vector<std::unique_ptr<PagedMatrix>> matrices;
    std::vector<std::vector<double>> expected;
    for (unsigned m = 0; m < 4; ++m) {
      matrices.push_back(std::make_unique<PagedMatrix>(seed + m));
      expected.emplace_back(matrices.back()->at, matrices.back()->at + ld * n);
    }
    for (int step = 0; step < 60; ++step) {
      const auto a = static_cast<std::size_t>(draw(2)), b = static_cast<std::size_t>(draw(2)),
                 c = static_cast<std::size_t>(2 + draw(2));
      const double beta = static_cast<double>(draw(2));
      const index_t first = draw(4) == 0 ? 1 + draw(40) : 0;
      const std::vector<device::Touched> operands = {{matrices[a]->host(first)},
                                                     {matrices[b]->host(first)},
                                                     {matrices[c]->host(first), device::Touched::Use::written}};
      keeper->begin(operands);
      static_cast<void>(
          host.run_or_compute(product(matrices[a]->at, matrices[b]->at, matrices[c]->at, beta, first), tile));
      keeper->end(operands);
      kernels::reference_level3(product(expected[a].data(), expected[b].data(), expected[c].data(), beta, first));
      most_known = std::max(most_known, keeper->known());
      const auto write = [&](std::size_t which, index_t element, double value) {
        matrices[which]->at[element] = value;
        expected[which][static_cast<std::size_t>(element)] = value;
      };
      if (draw(3) == 0)
        write(static_cast<std::size_t>(draw(4)), draw(static_cast<unsigned>(ld * n)), static_cast<double>(draw(7)));
      if (draw(8) == 0) {  // small again
        for (index_t e = 0; e < ld * n; ++e)
          write(c, e, static_cast<double>(static_cast<std::int64_t>(expected[c][static_cast<std::size_t>(e)]) % 5));
      }
      ASSERT_TRUE(std::equal(expected[c].begin(), expected[c].end(), matrices[c]->at)) << seed << ' ' << step;
    }
  }
  EXPECT_GE(most_known, 3U);
}

}  // namespace residence_test
}  // namespace tessera::routines
