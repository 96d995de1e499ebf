// Solves with small triangles, against the readable reference.
#include "kernels/host/small_solve.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <random>
#include <vector>

#include "core/scalar.hpp"
#include "kernels/reference/reference.hpp"

namespace tessera::kernels {
namespace small_solve_test {

template <Scalar T>
std::vector<T> random_numbers(index_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values)
    value = scalar_cast<T>(AnyScalar(number(random), is_complex(scalar_type_of<T>()) ? number(random) : 0));
  return values;
}

template <class T>
class SmallSolve : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(SmallSolve, Types);

TYPED_TEST(SmallSolve, AgreesWithTheReferenceInAllVariants) {
  using T = TypeParam;
  for (const auto& [order, others] : {std::pair<index_t, index_t>{1, 1}, {2, 9}, {7, 4}, {31, 5}, {32, 33}, {32, 1}}) {
    for (const Side side : {Side::left, Side::right}) {
      for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
        for (const Op op : {Op::no_trans, Op::trans, Op::conj_trans}) {
          for (const Diag diag : {Diag::unit, Diag::non_unit}) {
            const index_t m = side == Side::left ? order : others, n = side == Side::left ? others : order;
            const index_t lda = order + 3, ldc = m + 2;
            std::vector<T> A = random_numbers<T>(lda * order, 1), C = random_numbers<T>(ldc * n, 2);
            for (T& value : A) value /= T(static_cast<float>(order));
            for (index_t i = 0; i < order; ++i) {
              A[static_cast<std::size_t>(i + i * lda)] += T(2);
              // Elements of the other triangle, and a diagonal of ones, must not be read.
              for (index_t j = 0; j < order; ++j) {
                const bool is_read = i == j ? diag == Diag::non_unit : (i > j) == (uplo == Uplo::lower);
                if (!is_read) A[static_cast<std::size_t>(i + j * lda)] = T(std::numeric_limits<float>::quiet_NaN());
              }
            }
            Level3 call{.routine = Routine::trsm,
                        .type = scalar_type_of<T>(),
                        .side = side,
                        .uplo = uplo,
                        .op_a = op,
                        .diag = diag,
                        .m = m,
                        .n = n,
                        .A = A.data(),
                        .lda = lda,
                        .C = C.data(),
                        .ldc = ldc};
            std::vector<T> expected = C;
            solve_small(call);
            call.C = expected.data();
            reference_level3(call);
            for (std::size_t i = 0; i < C.size(); ++i)
              ASSERT_LE(std::abs(C[i] - expected[i]), 100 * std::numeric_limits<decltype(std::abs(T()))>::epsilon())
                  << "element " << i << " of " << m << " x " << n;
          }
        }
      }
    }
  }
}

}  // namespace small_solve_test
}  // namespace tessera::kernels
