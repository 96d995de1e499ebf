// Matrices whose results stay on devices, through the C API and its C++ veneer: what is in host memory when, right
// results whatever calls come, and errors.
#include "tessera/matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "tessera/lapack.hpp"
#include "tessera/matrix.hpp"
#include "tests/device/backends.hpp"

namespace tessera {
namespace matrix_api_test {

using testing::HasSubstr;

/// On host devices and on GPUs.
class MatrixApi : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) != "cuda") return;
    const std::string plugin = test::cuda_plugin_path();
    if (std::getenv("TESSERA_CUDA_PLUGIN") == nullptr) setenv("TESSERA_CUDA_PLUGIN", plugin.c_str(), 1);
    try {
      const Context context("TESSERA_DEVICES=cuda");
    } catch (const StatusError& error) {
      if (test::cuda_required()) FAIL() << error.what();
      GTEST_SKIP() << error.what();
    }
  }
  static std::string on_devices(const std::string& settings) {
    return std::string("TESSERA_DEVICES=") + GetParam() + " TESSERA_TILE=16 " + settings;
  }
  static std::string keeping() { return on_devices("TESSERA_OFFLOAD=always TESSERA_RESIDENT=matrices"); }
};
INSTANTIATE_TEST_SUITE_P(Host, MatrixApi, testing::Values("host:2"));
INSTANTIATE_TEST_SUITE_P(Cuda, MatrixApi, testing::Values("cuda"));

constexpr std::int64_t n = 70, ld = 75;

struct Values {
  explicit Values(unsigned seed, double diagonal = 0) : elements(static_cast<std::size_t>(ld * n)) {
    std::mt19937 random(seed);
    for (double& element : elements) element = static_cast<double>(random() % 9) / 4 - 1;
    for (std::int64_t i = 0; i < n; ++i) at(i, i) += diagonal;
  }
  double& at(std::int64_t i, std::int64_t j) { return elements[static_cast<std::size_t>(j * ld + i)]; }
  double* data() { return elements.data(); }
  std::vector<double> elements;
};

/// As large as differences of results of other orders of sums may be.
void expect_close(Values& a, Values& b) {
  double most = 1, difference = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      most = std::max(most, std::abs(b.at(i, j)));
      difference = std::max(difference, std::abs(a.at(i, j) - b.at(i, j)));
    }
  }
  ASSERT_LE(difference, 1e-9 * most);
}

void multiply(const Context& context, double* a, double* b, double* c, double beta = 0) {
  gemm<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, n, n, n, 1, a, ld, b, ld, beta, c, ld);
}

TEST_P(MatrixApi, ResultsComeWhenTheyAreWanted) {
  const Context context(keeping()), plain("TESSERA_DEVICES=none");
  Values a(1), b(2), c(3), expected = c;
  const Values before = c;
  multiply(plain, a.data(), b.data(), expected.data());
  const Matrix<double> A(context, TESSERA_COL_MAJOR, n, n, a.data(), ld);
  const Matrix<double> C(context, TESSERA_COL_MAJOR, n, n, c.data(), ld);
  EXPECT_EQ(A.data(), a.data());
  EXPECT_EQ(A.ld(), ld);
  EXPECT_EQ(C.resident_bytes(), 0);
  multiply(context, A.data(), b.data(), C.data());
  EXPECT_EQ(C.resident_bytes(), n * n * 8);
  EXPECT_EQ(c.elements, before.elements);
  std::vector<double> part(6);
  C.read(4, 10, 3, 2, part.data(), 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 2; ++j)
      EXPECT_NEAR(part[static_cast<std::size_t>(j * 3 + i)], expected.at(4 + i, 10 + j), 1e-10);
  }
  EXPECT_EQ(c.elements, before.elements);
  C.sync();
  expect_close(c, expected);
  EXPECT_GE(context.last_job_stats().devices, 1);
}

TEST_P(MatrixApi, WhatTheProgramWritesIsUsed) {
  const Context context(keeping()), plain("TESSERA_DEVICES=none");
  Values a(1), b(2), c(3), expected_a = a, expected = c;
  {
    const Matrix<double> A(context, TESSERA_COL_MAJOR, n, n, a.data(), ld);
    const Matrix<double> C(context, TESSERA_COL_MAJOR, n, n, c.data(), ld);
    for (int time = 0; time < 3; ++time) {
      multiply(context, A.data(), b.data(), C.data(), 1);
      multiply(plain, expected_a.data(), b.data(), expected.data(), 1);
      const std::vector<double> block{1, 2, 3, 4, 5, 6};
      A.write(3 + time, 5, 2, 3, block.data(), 2);
      for (std::size_t e = 0; e < 6; ++e)
        expected_a.at(3 + time + static_cast<std::int64_t>(e) % 2, 5 + static_cast<std::int64_t>(e) / 2) = block[e];
      a.at(60, 60 + time) = expected_a.at(60, 60 + time) = 7;
      A.host_changed(60, 60 + time, 1, 1);
    }
  }
  EXPECT_EQ(a.elements, expected_a.elements);
  expect_close(c, expected);
}

TEST_P(MatrixApi, RowsAndOwnAddresses) {
  const Context context(keeping());
  const Matrix<float> A(context, TESSERA_ROW_MAJOR, 30, 50), B(context, TESSERA_ROW_MAJOR, 50, 20),
      C(context, TESSERA_ROW_MAJOR, 30, 20);
  EXPECT_GE(A.ld(), 50);
  std::vector<float> a(30 * 50), b(50 * 20), c(30 * 20, 9);
  std::mt19937 random(5);
  for (auto* each : {&a, &b}) {
    for (float& element : *each) element = static_cast<float>(random() % 4);
  }
  std::vector<float> zero(30 * 20, 1);
  C.read(0, 0, 30, 20, zero.data(), 20);
  EXPECT_EQ(zero, std::vector<float>(30 * 20, 0));
  A.write(0, 0, 30, 50, a.data(), 50);
  B.write(0, 0, 50, 20, b.data(), 20);
  gemm<float>(context, TESSERA_ROW_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 30, 20, 50, 1, A.data(), A.ld(), B.data(),
              B.ld(), 0, C.data(), C.ld());
  C.read(0, 0, 30, 20, c.data(), 20);
  for (std::size_t i = 0; i < 30; ++i) {
    for (std::size_t j = 0; j < 20; ++j) {
      float sum = 0;
      for (std::size_t l = 0; l < 50; ++l) sum += a[i * 50 + l] * b[l * 20 + j];
      ASSERT_EQ(c[i * 20 + j], sum);
    }
  }
}

// Right-hand sides in rows are copied into columns and back.
TEST_P(MatrixApi, CopiesOfRowsAreOfWhatIsThere) {
  for (const std::string where : {"always", "never"}) {
    const Context context(on_devices("TESSERA_RESIDENT=matrices TESSERA_OFFLOAD=" + where));
    constexpr auto by_rows = TESSERA_ROW_MAJOR;
    Values a(1, 60), x(2);
    const Matrix<double> A(context, by_rows, n, n), B(context, by_rows, n, n);
    A.write(0, 0, n, n, a.data(), ld);
    gemm<double>(context, by_rows, TESSERA_NO_TRANS, TESSERA_NO_TRANS, n, n, n, 1, A.data(), A.ld(), x.data(), ld, 0,
                 B.data(), B.ld());
    std::vector<std::int64_t> pivots(n);
    ASSERT_EQ(gesv<double>(context, by_rows, n, n, A.data(), A.ld(), pivots.data(), B.data(), B.ld()), 0);
    Values solved = x;
    B.read(0, 0, n, n, solved.data(), ld);
    ASSERT_NO_FATAL_FAILURE(expect_close(solved, x)) << where;
    // The singular values of the same, by a routine that needs columns.
    std::vector<double> s(n), t(n);
    gemm<double>(context, by_rows, TESSERA_NO_TRANS, TESSERA_NO_TRANS, n, n, n, 1, x.data(), ld, x.data(), ld, 0,
                 B.data(), B.ld());
    Values same(3);
    gemm<double>(context, by_rows, TESSERA_NO_TRANS, TESSERA_NO_TRANS, n, n, n, 1, x.data(), ld, x.data(), ld, 0,
                 same.data(), ld);
    ASSERT_EQ(
        gesdd<double>(context, by_rows, TESSERA_NO_VECTORS, n, n, B.data(), B.ld(), s.data(), nullptr, 1, nullptr, 1),
        0);
    ASSERT_EQ(
        gesdd<double>(context, by_rows, TESSERA_NO_VECTORS, n, n, same.data(), ld, t.data(), nullptr, 1, nullptr, 1),
        0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) EXPECT_NEAR(s[i], t[i], 1e-9 * t[0]);
  }
}

// Cholesky and LU, solves by their factors, QR, products, calls that stay on the CPU: each by what is in the matrices
// then.
TEST_P(MatrixApi, AllCallsSeeWhatIsThere) {
  for (const std::string where : {"always", "never", "40"}) {
    for (const std::string memory : {"1MiB", "24KiB"}) {
      const std::string settings = on_devices("TESSERA_OFFLOAD=" + where);
      const Context plain(settings), context(settings + " TESSERA_RESIDENT_MEMORY=" + memory);
      std::vector<Values> here, there;
      for (unsigned m = 0; m < 3; ++m) here.emplace_back(m, 60.0);
      there = here;
      std::vector<Matrix<double>> matrices;
      for (Values& each : here) matrices.emplace_back(context, TESSERA_COL_MAJOR, n, n, each.data(), ld);
      std::mt19937 random(17);
      std::vector<std::int64_t> pivots(n);
      std::vector<double> tau(n);
      for (int step = 0; step < 60; ++step) {
        const std::size_t a = random() % 3, b = (a + 1 + random() % 2) % 3, c = 3 - a - b;
        const std::int64_t first = random() % 3 == 0 ? 33 : 0, size = n - first, rhs = random() % 2 == 0 ? 5 : size;
        const unsigned kind = random() % 8;
        const auto run = [&](const Context& on, std::vector<Values>& all) {
          double* const x = &all[a].at(first, first);
          double* const y = &all[b].at(first, first);
          double* const z = &all[c].at(first, first);
          constexpr auto by_columns = TESSERA_COL_MAJOR;
          constexpr auto plainly = TESSERA_NO_TRANS;
          switch (kind) {
            case 0:
              return gemm<double>(on, by_columns, plainly, TESSERA_TRANS, size, rhs, size, 0.01, x, ld, y, ld, 0.5, z,
                                  ld);
            case 1:
              return syrk<double>(on, by_columns, TESSERA_LOWER, plainly, size, size, 0.01, x, ld, 1, z, ld);
            case 2:
              return trsm<double>(on, by_columns, TESSERA_LEFT, TESSERA_UPPER, plainly, TESSERA_NON_UNIT, size, rhs, 1,
                                  x, ld, y, ld);
            case 3:
            case 4: {
              // A definite one, and its factor, by which another one is solved for.
              syrk<double>(on, by_columns, TESSERA_UPPER, TESSERA_TRANS, size, size, 1, y, ld, 0, x, ld);
              if (potrf<double>(on, by_columns, TESSERA_UPPER, size, x, ld) != 0) return;
              static_cast<void>(potrs<double>(on, by_columns, TESSERA_UPPER, size, rhs, x, ld, z, ld));
              return;
            }
            case 5: {
              if (getrf<double>(on, by_columns, size, size, x, ld, pivots.data()) != 0) return;
              static_cast<void>(getrs<double>(on, by_columns, plainly, size, rhs, x, ld, pivots.data(), z, ld));
              return;
            }
            case 6:
              static_cast<void>(geqrf<double>(on, by_columns, size, size, x, ld, tau.data()));
              return;
            default:
              return trmm<double>(on, by_columns, TESSERA_RIGHT, TESSERA_LOWER, TESSERA_TRANS, TESSERA_NON_UNIT, size,
                                  size, 0.02, x, ld, z, ld);
          }
        };
        run(context, here);
        run(plain, there);
        // Rather every matrix is a new one soon than that errors grow.
        if (step % 4 == 3) {
          for (std::size_t m = 0; m < 3; ++m) {
            matrices[m].sync();
            ASSERT_NO_FATAL_FAILURE(expect_close(here[m], there[m]))
                << where << ' ' << memory << ' ' << step << ' ' << kind;
            Values fresh(static_cast<unsigned>(step) * 3 + static_cast<unsigned>(m), 60.0);
            matrices[m].write(0, 0, n, n, fresh.data(), ld);
            there[m].elements = fresh.elements;
          }
        }
      }
    }
  }
}

// Batches are of host memory: they see what is there, by whatever way they are computed, and leave others' matrices
// alone.
TEST_P(MatrixApi, BatchesSeeWhatIsThere) {
  for (const std::string where : {"always", "60"}) {
    const Context context(on_devices("TESSERA_RESIDENT=matrices TESSERA_OFFLOAD=" + where));
    Values a(1), b(2), c(3), expected = c;
    const Matrix<double> A(context, TESSERA_COL_MAJOR, n, n, a.data(), ld),
        C(context, TESSERA_COL_MAJOR, n, n, c.data(), ld);
    multiply(context, A.data(), b.data(), C.data());
    multiply(Context("TESSERA_DEVICES=none"), a.data(), b.data(), expected.data());
    // Twice the blocks of C, in place of those to the right of them.
    constexpr std::int64_t size = 5, count = n / size;
    std::vector<double> two(size * size, 0);
    for (std::int64_t i = 0; i < size; ++i) two[static_cast<std::size_t>(i * size + i)] = 2;
    gemm_batch_strided<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, size, size, size, 1,
                               C.data(), ld, size, two.data(), size, 0, 0, C.data() + size * ld, ld, size, count);
    for (std::int64_t j = 0; j < size; ++j) {
      for (std::int64_t i = 0; i < n; ++i) expected.at(i, size + j) = 2 * expected.at(i, j);
    }
    C.sync();
    ASSERT_NO_FATAL_FAILURE(expect_close(c, expected)) << where;
  }
}

TEST_P(MatrixApi, CallsOfOtherThreadsAreNotDisturbed) {
  const Context context(on_devices("TESSERA_OFFLOAD=always TESSERA_RESIDENT_MEMORY=200KiB"));
  std::atomic<bool> ends = false;
  std::thread batches([&] {
    std::vector<double> x(6 * 6 * 40, 1), y = x;
    while (!ends)
      gemm_batch_strided<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 6, 6, 6, 1, x.data(),
                                 6, 36, x.data(), 6, 36, 0, y.data(), 6, 36, 40);
  });
  // Each thread has matrices of its own, which together are more than stays.
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Values a(t), b(t + 10), c(t + 20);
      const Matrix<double> A(context, TESSERA_COL_MAJOR, n, n, a.data(), ld), B(context, TESSERA_COL_MAJOR, n, n),
          C(context, TESSERA_COL_MAJOR, n, n, c.data(), ld);
      for (int time = 0; time < 12; ++time) {
        Values fresh(t + 100 * static_cast<unsigned>(time)), expected = c, read = c;
        B.write(0, 0, n, n, fresh.data(), ld);
        gemm<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, n, n, n, 1, A.data(), ld, B.data(),
                     B.ld(), 0, C.data(), ld);
        kernels::reference_level3({.m = n,
                                   .n = n,
                                   .k = n,
                                   .alpha = 1,
                                   .A = a.data(),
                                   .lda = ld,
                                   .B = fresh.data(),
                                   .ldb = ld,
                                   .beta = 0,
                                   .C = expected.data(),
                                   .ldc = ld});
        C.read(0, 0, n, n, read.data(), ld);
        expect_close(read, expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ends = true;
  batches.join();
}

constexpr const char* keeping_on_host =
    "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_TILE=16 TESSERA_RESIDENT=matrices";

TEST(MatrixApiOnHost, ALostMatrixIsTold) {
  const Context context(
      "TESSERA_DEVICES=host:1 TESSERA_HOST_DEVICE=fail=down:0 TESSERA_OFFLOAD=always TESSERA_TILE=16 "
      "TESSERA_RESIDENT=matrices");
  Values a(1), b(2), c(3), d(4);
  const auto status_of = [](auto&& call) {
    try {
      call();
      return TESSERA_SUCCESS;
    } catch (const StatusError& error) {
      return error.status();
    }
  };
  const Matrix<double> C(context, TESSERA_COL_MAJOR, n, n, c.data(), ld);
  multiply(context, a.data(), b.data(), C.data());
  EXPECT_EQ(status_of([&] { C.sync(); }), TESSERA_DEVICE_LOST);
  // No device is left, and the CPU has not what was there.
  EXPECT_EQ(status_of([&] { multiply(context, C.data(), b.data(), d.data()); }), TESSERA_DEVICE_LOST);
  EXPECT_EQ(status_of([&] { C.read(0, 0, 1, 1, d.data(), 1); }), TESSERA_DEVICE_LOST);
  EXPECT_EQ(status_of([&] { multiply(context, a.data(), b.data(), d.data()); }), TESSERA_SUCCESS);
  EXPECT_EQ(status_of([&] { C.write(0, 0, n, n, d.data(), ld); }), TESSERA_SUCCESS);
  Values e(5), expected = e;
  EXPECT_EQ(status_of([&] { multiply(context, C.data(), b.data(), e.data()); }), TESSERA_SUCCESS);
  multiply(context, d.data(), b.data(), expected.data());
  expect_close(e, expected);
}

TEST(MatrixApiOnHost, WithoutDevicesItIsHostMemory) {
  const Context context("TESSERA_DEVICES=none");
  Values a(1), b(2), c(3), expected = c;
  multiply(context, a.data(), b.data(), expected.data());
  const Matrix<double> C(context, TESSERA_COL_MAJOR, n, n, c.data(), ld);
  multiply(context, a.data(), b.data(), C.data());
  EXPECT_EQ(c.elements, expected.elements);
  EXPECT_EQ(C.resident_bytes(), 0);
  C.sync();
  double element = 0;
  C.read(5, 6, 1, 1, &element, 1);
  EXPECT_EQ(element, c.at(5, 6));
}

TEST(MatrixApiOnHost, Errors) {
  const Context context(keeping_on_host), without("TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=always");
  Values a(1);
  tessera_matrix matrix = nullptr;
  const auto create = [&](tessera_context ctx, int layout, std::int64_t rows, std::int64_t cols, std::size_t element,
                          double* memory, std::int64_t of_ld) {
    return tessera_matrix_create(ctx, static_cast<tessera_layout>(layout), rows, cols, element, memory, of_ld, &matrix);
  };
  const auto expect_bad = [](tessera_status status, int position) {
    EXPECT_EQ(status, TESSERA_INVALID_ARGUMENT) << position;
    EXPECT_EQ(tessera_last_error_position(), position);
  };
  const tessera_context ctx = context.handle();
  expect_bad(create(nullptr, 102, n, n, 8, a.data(), ld), 1);
  expect_bad(create(ctx, 100, n, n, 8, a.data(), ld), 2);
  expect_bad(create(ctx, 102, 0, n, 8, a.data(), ld), 3);
  expect_bad(create(ctx, 102, n, -1, 8, a.data(), ld), 4);
  expect_bad(create(ctx, 102, n, n, 17, a.data(), ld), 5);
  expect_bad(create(ctx, 102, n, n, 8, nullptr, ld), 6);
  expect_bad(create(ctx, 102, n, n, 8, a.data(), n - 1), 7);
  expect_bad(create(ctx, 102, n, n, 8, a.data(), std::int64_t{1} << 60), 7);
  expect_bad(tessera_matrix_create(ctx, TESSERA_COL_MAJOR, n, n, 8, a.data(), ld, nullptr), 8);
  expect_bad(tessera_matrix_create_on_devices(ctx, TESSERA_COL_MAJOR, std::int64_t{1} << 60, 1 << 20, 8, &matrix), 3);
  expect_bad(tessera_matrix_create_on_devices(ctx, TESSERA_COL_MAJOR, n, n, 8, nullptr), 6);
  EXPECT_EQ(create(without.handle(), 102, n, n, 8, a.data(), ld), TESSERA_NOT_AVAILABLE);
  EXPECT_THAT(tessera_last_error(), HasSubstr("TESSERA_RESIDENT"));
  EXPECT_EQ(matrix, nullptr);

  ASSERT_EQ(create(ctx, 102, n, n, 8, a.data(), ld), TESSERA_SUCCESS);
  tessera_matrix other = matrix;
  expect_bad(tessera_matrix_create(ctx, TESSERA_COL_MAJOR, 2, 2, 8, &a.at(3, 3), ld, &other), 6);
  EXPECT_EQ(other, nullptr);
  double element = 0;
  expect_bad(tessera_matrix_read(matrix, -1, 0, 1, 1, &element, 1), 2);
  expect_bad(tessera_matrix_read(matrix, 0, n + 1, 0, 0, &element, 1), 3);
  expect_bad(tessera_matrix_read(matrix, 1, 0, n, 1, &element, n), 4);
  expect_bad(tessera_matrix_read(matrix, 1, 2, 1, n, &element, 1), 5);
  expect_bad(tessera_matrix_read(matrix, 1, 2, 1, 1, nullptr, 1), 6);
  expect_bad(tessera_matrix_write(matrix, 1, 2, 2, 1, &element, 1), 7);
  expect_bad(tessera_matrix_host_changed(nullptr, 0, 0, 1, 1), 1);
  expect_bad(tessera_matrix_sync(nullptr), 1);
  expect_bad(tessera_matrix_resident_bytes(matrix, nullptr), 2);
  EXPECT_EQ(tessera_matrix_address(nullptr), nullptr);
  EXPECT_EQ(tessera_matrix_ld(nullptr), 0);
  EXPECT_EQ(tessera_matrix_destroy(nullptr), TESSERA_SUCCESS);
  expect_bad(tessera_destroy(ctx), 1);
  EXPECT_THAT(tessera_last_error(), HasSubstr("matrices"));
  EXPECT_EQ(tessera_matrix_destroy(matrix), TESSERA_SUCCESS);
}

TEST(MatrixApiOnHost, AChildHasNone) {
  const Context context(keeping_on_host);
  Values a(1), b(2), c(3);
  const Matrix<double> C(context, TESSERA_COL_MAJOR, n, n, c.data(), ld);
  multiply(context, a.data(), b.data(), C.data());
  const pid_t child = fork();
  if (child == 0) {
    const bool is_refused = tessera_matrix_sync(C.handle()) == TESSERA_NOT_AVAILABLE;
    _exit(is_refused && tessera_matrix_destroy(C.handle()) == TESSERA_SUCCESS ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  C.sync();
}

}  // namespace matrix_api_test
}  // namespace tessera
