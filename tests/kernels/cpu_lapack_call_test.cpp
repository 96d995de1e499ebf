// Calls of LAPACK on the CPU: by the LAPACK of a CPU BLAS, by one that has none, against the readable reference.
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
namespace {

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
  for (int routine = 0; routine < lapack_call_routine_count; ++routine) {
    for (const index_t m : {1, 40, 100}) {
      for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
        for (const Op op : {Op::no_trans, Op::trans, Op::conj_trans}) {
          for (const int bits : {32, 64}) {
            const auto r = static_cast<LapackCallRoutine>(routine);
            LapackCallProblem<T> problem(
                {.routine = r, .m = m, .n = 90, .nrhs = 7, .uplo = uplo, .op = op, .ipiv_bits = bits}, 1);
            LapackCall call = problem.call();
            compute_on_cpu(blas, call);
            EXPECT_TRUE(problem.check(call.info));
            if (!solves(r) || r == LapackCallRoutine::potrs) break;
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

}  // namespace
}  // namespace tessera::kernels
