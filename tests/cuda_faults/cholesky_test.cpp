// Cholesky on GPUs of the stand-in: the launches that factor a tile, their report of its minors, and the job's result
// after a failure.
#include <gtest/gtest.h>

#include <complex>
#include <memory>
#include <sstream>
#include <utility>

#include "core/config.hpp"
#include "core/error.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/lapack.hpp"
#include "runtime/runtime.hpp"
#include "tests/cuda_faults/standin_machine.hpp"
#include "tests/cuda_standin/standin.hpp"
#include "tests/routines/cholesky_problem.hpp"

namespace tessera {
namespace cholesky_test {

std::unique_ptr<runtime::Runtime> runtime_on(int gpus) {
  cuda_standin::start({.gpus = gpus});
  auto opened = test::open_standin_gpus(gpus, 0);
  return std::make_unique<runtime::Runtime>(std::move(opened.accelerators), Config{}, &kernels::reference_level3);
}

/// @return the number of restarts
template <Scalar T>
std::int64_t compute(runtime::Runtime& runtime, const test::CholeskyCase& c, index_t tile) {
  test::CholeskyFixture<T> fixture(c, 11);
  try {
    const runtime::JobStatistics statistics = routines::cholesky(runtime, fixture.call(), tile);
    EXPECT_TRUE(fixture.check(statistics.info, (statistics.info - 1) / tile * tile)) << "tile " << tile;
    return statistics.restarts;
  } catch (const NoDeviceLeft&) {  // A is unchanged
    return 0;
  }
}

// A tile of several blocks, whose last one is small; blocks are made of triangles or of panels, by type.
TEST(StandinCholesky, TilesAreFactoredBlockByBlock) {
  auto runtime = runtime_on(1);
  for (const Uplo uplo : test::all_uplos) {
    for (const index_t at : {-1, 100, 255, 300}) {
      const test::CholeskyCase c{.uplo = uplo, .n = 325, .indefinite_at = at, .with_nan = at == 300};
      compute<double>(*runtime, c, 325);
      compute<float>(*runtime, c, 200);
      compute<std::complex<float>>(*runtime, c, 325);
      compute<std::complex<double>>(*runtime, c, 325);
    }
  }
  runtime.reset();
  for (const auto& [kind, number] : cuda_standin::held()) ADD_FAILURE() << number << ' ' << kind << " not given back";
  for (const std::string& offence : cuda_standin::offences()) ADD_FAILURE() << offence;
}

TEST(StandinCholesky, FaultsLeaveFactorAndInfoRight) {
  std::int64_t restarts = 0;
  for (const int gpus : {1, 2}) {
    for (const char* const call : {"kernel", "copy down", "copy up", "cudaMemcpyAsync"}) {
      for (const std::int64_t number : {0, 1, 2, 5, 9, 14, 20}) {
        for (const index_t at : {-1, 20}) {
          const auto runtime = runtime_on(gpus);
          std::ostringstream what;
          what << call << ' ' << number << ", " << gpus << " GPUs, indefinite at " << at;
          SCOPED_TRACE(what.str());
          cuda_standin::inject({call, number, cudaErrorLaunchFailure, true});
          restarts += compute<double>(*runtime, {.n = 43, .indefinite_at = at}, 8);
          cuda_standin::count_calls();
        }
      }
    }
  }
  EXPECT_GT(restarts, 20);
}

}  // namespace cholesky_test
}  // namespace tessera
