// Calls of LAPACK on the CPU, with the LAPACK of a CPU BLAS and with a BLAS that has none, against the readable
// reference.
#include "kernels/host/cpu_lapack_call.hpp"

#include <glob.h>
#include <gtest/gtest.h>

#include <complex>
#include <memory>
#include <string>

#include "core/error.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "tests/blas_api/lapack_call_problem.hpp"

namespace tessera::kernels {
namespace cpu_lapack_call_test {

using test::LapackCallProblem;

/// The reference BLAS, which has no LAPACK. nullptr: it is not installed.
std::shared_ptr<const CpuBlas> reference_blas() {
  glob_t found{};
  std::shared_ptr<const CpuBlas> blas;
  if (glob("/usr/lib/*/blas/libblas.so.3", 0, nullptr, &found) == 0) blas = CpuBlas::open(found.gl_pathv[0]);
  globfree(&found);
  return blas;
}

template <Scalar T>
void check_all(const CpuBlas* blas) {
  for (const Routine r : routines_of<Way::factors>) {
    for (const index_t m : {1, 40, 100}) {
      for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
        for (const Op op : {Op::no_trans, Op::trans, Op::conj_trans}) {
          for (const int bits : {32, 64}) {
            LapackCallProblem<T> problem(
                {.routine = r, .m = m, .n = 90, .nrhs = 7, .uplo = uplo, .op = op, .ipiv_bits = bits}, 1);
            index_t found = 0;
            EXPECT_TRUE(problem.check(compute_on_cpu(blas, problem.call(), found)));
            if (!solves(r) || r == Routine::potrs) break;
          }
        }
      }
    }
  }
}

template <class T>
class CpuLapackCalls : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CpuLapackCalls, Types);

TYPED_TEST(CpuLapackCalls, AgreeWithTheReferenceOverALapack) {
  std::shared_ptr<const CpuBlas> blas;
  try {
    blas = CpuBlas::open("");
  } catch (const NotAvailable& error) {
    GTEST_SKIP() << error.what();
  }
  if (blas->fortran("dgeqrf") == nullptr) GTEST_SKIP() << blas->path() << " has no LAPACK";
  check_all<TypeParam>(blas.get());
}

TYPED_TEST(CpuLapackCalls, AgreeWithTheReferenceOverABlasAlone) {
  const auto blas = reference_blas();
  if (!blas) GTEST_SKIP() << "no reference BLAS is installed";
  EXPECT_EQ(blas->fortran("dgeqrf"), nullptr);
  check_all<TypeParam>(blas.get());
}

}  // namespace cpu_lapack_call_test
}  // namespace tessera::kernels
