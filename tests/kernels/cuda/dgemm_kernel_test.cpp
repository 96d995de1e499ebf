// The product kernel of GPUs of compute capability 9.0 by itself, at sizes at which is_for_dgemm_kernel() prefers
// cuBLAS.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cuda/dgemm.hpp"
#include "tests/device/backends.hpp"

namespace tessera {
namespace dgemm_kernel_test {

using kernels::cuda::HopperDgemm;

struct Free {
  void operator()(double* memory) const { static_cast<void>(cudaFree(memory)); }
};
using DeviceArray = std::unique_ptr<double, Free>;

class CudaDgemmKernel : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0, major = 0, minor = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
      ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
      ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
      ASSERT_EQ(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), cudaSuccess);
    } else {
      ASSERT_FALSE(test::cuda_required()) << "no CUDA device";
    }
    if (major != 9 || minor != 0) GTEST_SKIP() << "no GPU of compute capability 9.0";
    ASSERT_EQ(dgemm_.load(0, device::gpu_profile(9, 0).dgemm), cudaSuccess);
  }

  static DeviceArray on_device(const std::vector<double>& values) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, values.size() * sizeof(double)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(memory, values.data(), values.size() * sizeof(double), cudaMemcpyHostToDevice), cudaSuccess);
    return DeviceArray(static_cast<double*>(memory));
  }

  // Rows and columns around the matrices are NaN, and those of C must stay so. The numbers are small integers, so that
  // every sum is exact.
  // @param c_offset elements from an aligned address to C
  // @param infinite whether A and B have a row and a column of infinity
  void check_product(Level3 call, index_t c_offset = 0, bool infinite = false) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    constexpr double infinity = std::numeric_limits<double>::infinity();
    std::mt19937 random(7);
    const auto number = [&] { return static_cast<double>(static_cast<int>(random() % 9) - 4); };
    const auto even = [](index_t rows) { return rows + 2 + rows % 2; };
    const auto matrix = [&](StoredShape shape, index_t ld, index_t offset) {
      std::vector<double> values(static_cast<std::size_t>(ld * (shape.cols + 1) + offset), nan);
      for (index_t j = 0; j < shape.cols; ++j)
        for (index_t i = 0; i < shape.rows; ++i) values[static_cast<std::size_t>(offset + i + j * ld)] = number();
      return values;
    };
    const StoredShape a = shape_of_a(call), b = shape_of_b(call);
    call.lda = even(a.rows);
    call.ldb = even(b.rows);
    call.ldc = even(call.m) + c_offset;
    std::vector<double> A = matrix(a, call.lda, 0), B = matrix(b, call.ldb, 0),
                        C = matrix({call.m, call.n}, call.ldc, c_offset);
    const auto a_at = [&](index_t i, index_t l) -> double& {
      return A[static_cast<std::size_t>(call.op_a == Op::no_trans ? i + l * call.lda : l + i * call.lda)];
    };
    const auto b_at = [&](index_t l, index_t j) -> double& {
      return B[static_cast<std::size_t>(call.op_b == Op::no_trans ? l + j * call.ldb : j + l * call.ldb)];
    };
    if (infinite) {
      for (index_t l = 0; l < call.k; ++l) {
        a_at(call.m / 2, l) = infinity;
        b_at(l, call.n / 2) = std::abs(b_at(l, call.n / 2)) + 1;
      }
    }
    // C is not read
    if (call.beta == AnyScalar(0)) std::fill(C.begin() + c_offset, C.begin() + c_offset + call.m, nan);
    std::vector<double> expected = C;
    for (index_t j = 0; j < call.n; ++j) {
      for (index_t i = 0; i < call.m; ++i) {
        double sum = 0;
        for (index_t l = 0; l < call.k; ++l) sum += a_at(i, l) * b_at(l, j);
        double& element = expected[static_cast<std::size_t>(c_offset + i + j * call.ldc)];
        element = call.alpha.real() * sum + (call.beta == AnyScalar(0) ? 0 : call.beta.real() * element);
      }
    }
    const DeviceArray device_a = on_device(A), device_b = on_device(B), device_c = on_device(C);
    call.A = device_a.get();
    call.B = device_b.get();
    call.C = device_c.get() + c_offset;
    ASSERT_EQ(dgemm_.submit(call, nullptr), cudaSuccess);
    std::vector<double> result(C.size());
    ASSERT_EQ(cudaMemcpy(result.data(), device_c.get(), C.size() * sizeof(double), cudaMemcpyDeviceToHost),
              cudaSuccess);
    for (std::size_t at = 0; at < C.size(); ++at) {
      const bool same = result[at] == expected[at] || (std::isnan(result[at]) && std::isnan(expected[at]));
      ASSERT_TRUE(same) << call.m << " x " << call.n << " x " << call.k << ", op " << static_cast<int>(call.op_a)
                        << static_cast<int>(call.op_b) << ", element " << at << ": " << result[at] << ", not "
                        << expected[at];
    }
  }

  template <class Check>
  static void for_all_transposes(const Check& check) {
    for (const Op op_a : {Op::no_trans, Op::trans})
      for (const Op op_b : {Op::no_trans, Op::conj_trans}) check(op_a, op_b);
  }

  HopperDgemm dgemm_;
};

TEST_F(CudaDgemmKernel, IsTakenForLargeProducts) {
  alignas(16) static double memory[2];
  Level3 call{
      .m = 4096, .n = 4096, .k = 2048, .A = memory, .lda = 4096, .B = memory, .ldb = 2048, .C = memory, .ldc = 4096};
  EXPECT_TRUE(dgemm_.takes(call));
  call.k = 8;
  EXPECT_FALSE(dgemm_.takes(call));
}

// Fewer stages than slots, as many, and more; sums that end within a step and between two.
TEST_F(CudaDgemmKernel, SumsOfAnyLength) {
  for_all_transposes([&](Op op_a, Op op_b) {
    for (const index_t k : {1, 15, 16, 17, 31, 32, 33, 64, 65, 95, 96, 97, 129, 191, 192, 193, 1000})
      check_product({.op_a = op_a, .op_b = op_b, .m = 130, .n = 129, .k = k, .alpha = 2, .beta = -1});
  });
}

TEST_F(CudaDgemmKernel, ResultsOfAnySize) {
  for_all_transposes([&](Op op_a, Op op_b) {
    for (const index_t m : {1, 16, 127, 128, 129, 272}) {
      for (const index_t n : {1, 2, 112, 127, 128, 129, 400})
        check_product(
            {.op_a = op_a, .op_b = op_b, .m = m, .n = n, .k = 40, .alpha = -3, .beta = n % 2 == 0 ? 0.0 : 0.5});
    }
  });
}

// Nine rows of blocks: a band of eight, and one of one.
TEST_F(CudaDgemmKernel, ResultsOfSeveralBands) {
  for (const index_t m : {1024, 1025, 1152}) check_product({.m = m, .n = 384, .k = 64, .alpha = 1, .beta = 1});
}

TEST_F(CudaDgemmKernel, ResultsAtAddressesThatAreNotAligned) {
  for_all_transposes([&](Op op_a, Op op_b) {
    check_product({.op_a = op_a, .op_b = op_b, .m = 256, .n = 256, .k = 64, .alpha = 1, .beta = 1}, 1);
    check_product({.op_a = op_a, .op_b = op_b, .m = 256, .n = 256, .k = 64, .alpha = 1, .beta = 0}, 1);
  });
}

// The zeros that fill up the last step do not meet an infinity.
TEST_F(CudaDgemmKernel, InfinityStaysInItsRow) {
  for_all_transposes([&](Op op_a, Op op_b) {
    check_product({.op_a = op_a, .op_b = op_b, .m = 131, .n = 140, .k = 35, .alpha = 1, .beta = 1}, 0, true);
  });
}

}  // namespace dgemm_kernel_test
}  // namespace tessera
