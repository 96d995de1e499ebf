// Whole problems on GPUs of the stand-in: each of their calls of CUDA and cuSOLVER fails. The results are right
// nevertheless, or the inputs are unchanged.
#include <gtest/gtest.h>

#include <chrono>
#include <complex>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "core/config.hpp"
#include "core/error.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/dense_solvers.hpp"
#include "runtime/runtime.hpp"
#include "tests/cuda_faults/faults.hpp"
#include "tests/cuda_faults/standin_machine.hpp"
#include "tests/cuda_standin/standin.hpp"
#include "tests/dense_fixture.hpp"

namespace tessera {
namespace dense_test {

constexpr LapackCall problems[] = {
    {.routine = Routine::heevd, .vectors = true, .n = 30},
    {.routine = Routine::heevr, .vectors = true, .range = EigenRange::indices, .n = 30, .il = 3, .iu = 9},
    {.routine = Routine::hegvd, .vectors = true, .n = 30},
    {.routine = Routine::gesvd, .u = VectorJob::overwrite, .vt = VectorJob::all, .m = 20, .n = 30},
    {.routine = Routine::ungqr, .m = 30, .n = 20, .k = 20},
    {.routine = Routine::unglq, .m = 20, .n = 30, .k = 15},
    {.routine = Routine::unmqr, .m = 30, .n = 20, .k = 20},
    {.routine = Routine::geev, .vectors = true, .n = 30},
    {.routine = Routine::trtri, .n = 30},
    {.routine = Routine::potri, .n = 30},
    {.routine = Routine::unmlq, .m = 30, .n = 20, .k = 20},
    {.routine = Routine::unmtr, .m = 30, .n = 20},
    {.routine = Routine::larfb, .m = 30, .n = 20, .k = 10},
    {.routine = Routine::gels, .m = 20, .n = 30, .k = 4},
    {.routine = Routine::gelsd, .m = 30, .n = 20, .k = 4, .rcond = 1e-4},
    {.routine = Routine::lauum, .n = 30},
    {.routine = Routine::getri, .n = 30},
    {.routine = Routine::sytrf, .n = 30},
    {.routine = Routine::sytrs, .n = 30, .k = 4},
    {.routine = Routine::sysv, .uplo = Uplo::upper, .n = 30, .k = 4}};

std::unique_ptr<runtime::Runtime> solvers_on(int gpus) {
  cuda_standin::start({.gpus = gpus});
  auto opened = test::open_standin_gpus(gpus, 0);
  return std::make_unique<runtime::Runtime>(std::move(opened.accelerators), Config{}, &kernels::reference_level3);
}

/// @return whether a device has solved it
template <Scalar T>
bool solve(runtime::Runtime& runtime, const LapackCall& form) {
  test::DenseFixture<T> fixture(form, 11);
  try {
    const runtime::JobStatistics statistics = routines::solve_dense(runtime, fixture.problem());
    EXPECT_TRUE(fixture.unless_library_is_wrong(fixture.check(statistics.info)));
    return true;
  } catch (const NotAvailable&) {
  } catch (const OutOfDeviceMemory&) {
  }
  EXPECT_TRUE(fixture.inputs_are_intact());
  return false;
}

TEST(StandinProblems, EverythingIsGivenBack) {
  auto runtime = solvers_on(1);
  for (const LapackCall& problem : problems) {
    EXPECT_TRUE(solve<std::complex<double>>(*runtime, problem));
    EXPECT_TRUE(solve<float>(*runtime, problem));
  }
  runtime.reset();
  for (const auto& [kind, number] : cuda_standin::held()) EXPECT_EQ(number, 0) << kind;
  for (const std::string& offence : cuda_standin::offences()) ADD_FAILURE() << offence;
}

TEST(StandinProblems, NothingIsReadOnTheHostBeforeItIsWritten) {
  cuda_standin::start({.begins_after = std::chrono::milliseconds(5)});
  runtime::Runtime runtime(test::open_standin_gpus(1, 0).accelerators, Config{}, &kernels::reference_level3);
  for (const LapackCall& problem : problems) EXPECT_TRUE(solve<double>(runtime, problem));
  for (const std::string& offence : cuda_standin::offences()) ADD_FAILURE() << offence;
}

TEST(StandinProblems, FaultsLeaveResultsRightOrInputsIntact) {
  int solved = 0, faults = 0;
  for (const std::size_t number : {0, 2, 3, 5, 12, 13, 15, 18}) {  // results replace inputs, in each way
    const LapackCall& problem = problems[number];
    auto runtime = solvers_on(1);
    cuda_standin::count_calls();
    EXPECT_TRUE(solve<std::complex<double>>(*runtime, problem));
    const auto calls = cuda_standin::calls();
    runtime.reset();
    for (const int gpus : {1, 2}) {
      for (const cuda_standin::Fault& fault : test::faults_of(calls)) {
        runtime = solvers_on(gpus);
        std::ostringstream what;
        what << problem << ": " << fault << ", " << gpus << " GPUs";
        SCOPED_TRACE(what.str());
        cuda_standin::inject(fault);
        solved += solve<std::complex<double>>(*runtime, problem) ? 1 : 0;
        ++faults;
        cuda_standin::count_calls();
        // A later call, on the devices that are left.
        static_cast<void>(solve<std::complex<double>>(*runtime, problem));
        runtime.reset();
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(solved, faults / 4);
  EXPECT_LT(solved, faults);
}

}  // namespace dense_test
}  // namespace tessera
