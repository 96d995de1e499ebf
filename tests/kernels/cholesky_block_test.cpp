// The thread blocks that factor positive definite matrices, on host threads: sweeps, and matrices in registers.
#include <gtest/gtest.h>

#include <complex>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/block/cholesky_sweep.hpp"
#include "tests/kernels/host_block_machine.hpp"
#include "tests/kernels/lapack_block_problem.hpp"

namespace tessera {
namespace cholesky_block_test {

using kernels::block::PartOf;
using kernels::block::parts_of;
using test::lapack_blocks::by_reference;
using test::lapack_blocks::expect_near;
using test::lapack_blocks::Matrix;
using test::lapack_blocks::positive_matrix;

template <Scalar T>
int run_cholesky(Matrix<T>& A, Uplo uplo) {
  using Block = kernels::block::GemmShape<PartOf<T>, parts_of<T>, 32, 16, 2, 1, 2>;
  using Machine = test::HostWarps<2, true>;
  using Sweep = kernels::block::CholeskySweep<Block, Machine>;
  const auto memory = std::make_unique<typename Sweep::Memory>();
  index_t info = 0;
  test::run_block<Block, Machine>([&](const Machine& machine) {
    Sweep sweep(*memory, machine);
    const bool lower = uplo == Uplo::lower;
    const index_t failed = sweep.run(A.elements(), lower ? 1 : A.ld, lower ? A.ld : 1, A.rows, A.columns);
    if (machine.thread() == 0) info = failed;
  });
  return static_cast<int>(info);
}

template <class T>
class CholeskyBlocks : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CholeskyBlocks, Types);

TYPED_TEST(CholeskyBlocks, SweepsFactorPositiveMatrices) {
  using T = TypeParam;
  for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
    for (const index_t n : {1, 2, 15, 16, 17, 33, 50, 100}) {
      Matrix<T> A = positive_matrix<T>(n, uplo, 13), expected = A;
      std::vector<int> none;
      EXPECT_EQ(by_reference(Routine::potrf, expected, none, uplo), 0);
      EXPECT_EQ(run_cholesky(A, uplo), 0);
      expect_near(A, expected, "n = " + std::to_string(n) + (uplo == Uplo::lower ? ", lower" : ", upper"));
    }
  }
}

/// A matrix in registers, by a warp and by two.
template <int threads, bool is_upper, Scalar T>
int run_small_cholesky(Matrix<T>& A) {
  using Shape = kernels::block::CholeskyShape<PartOf<T>, parts_of<T>, threads, threads>;
  using Block =
      kernels::block::GemmShape<PartOf<T>, parts_of<T>, 16 * threads / 32, 8, threads / 32, 1, 2>;  // its threads
  using Machine = test::HostWarps<threads / 32, true>;
  kernels::block::CholeskyMemory<Shape> memory;
  kernels::block::UpperTriangle<Shape> triangle;
  std::vector<int> info(threads);
  test::run_block<Block, Machine>([&](const Machine& machine) {
    kernels::block::CholeskyBlock<Shape, Machine> block(memory, machine);
    const int order = static_cast<int>(A.rows);
    is_upper ? block.load_upper(triangle, A.elements(), A.ld, order) : block.load(A.elements(), 1, A.ld, order);
    info[static_cast<std::size_t>(machine.thread())] = block.factor();
    is_upper ? block.store_upper(triangle, A.elements(), A.ld) : block.store(A.elements(), 1, A.ld);
  });
  for (const int of_thread : info) EXPECT_EQ(of_thread, info[0]);
  return info[0];
}

TYPED_TEST(CholeskyBlocks, RegistersHoldPositiveMatrices) {
  using T = TypeParam;
  for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
    for (const index_t n : {1, 5, 31, 32, 33, 64}) {
      Matrix<T> A = positive_matrix<T>(n, uplo, 15), expected = A, failing = A;
      std::vector<int> none;
      const auto run = [&](Matrix<T>& matrix) {
        if (n <= 32)
          return uplo == Uplo::lower ? run_small_cholesky<32, false>(matrix) : run_small_cholesky<32, true>(matrix);
        return uplo == Uplo::lower ? run_small_cholesky<64, false>(matrix) : run_small_cholesky<64, true>(matrix);
      };
      EXPECT_EQ(by_reference(Routine::potrf, expected, none, uplo), 0);
      EXPECT_EQ(run(A), 0);
      expect_near(A, expected, "n = " + std::to_string(n) + (uplo == Uplo::lower ? ", lower" : ", upper"));
      failing(n / 2, n / 2) = T(-2);
      EXPECT_EQ(run(failing), n / 2 + 1);
    }
  }
}

TYPED_TEST(CholeskyBlocks, SweepsFindTheMinorThatIsNotPositive) {
  using T = TypeParam;
  using R = PartOf<T>;
  for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
    for (const index_t at : {0, 1, 14, 15, 16, 30, 39}) {
      for (const R wrong : {R(-1), R(0), std::numeric_limits<R>::quiet_NaN()}) {
        Matrix<T> A = positive_matrix<T>(40, uplo, 14);
        A(at, at) = T(wrong);
        EXPECT_EQ(run_cholesky(A, uplo), at + 1) << wrong;
      }
    }
  }
}

}  // namespace cholesky_block_test
}  // namespace tessera
