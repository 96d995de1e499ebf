// LU, QR and LQ on GPUs of the stand-in: the calls that factor and apply panels, and the job's result when one of them
// fails.
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
#include "tests/routines/columns_problem.hpp"

namespace tessera {
namespace columns_test {

using kernels::PanelKind;

constexpr PanelKind all_panels[] = {PanelKind::lu, PanelKind::qr, PanelKind::lq};

std::unique_ptr<runtime::Runtime> columns_on(int gpus) {
  cuda_standin::start({.gpus = gpus});
  auto opened = test::open_standin_gpus(gpus, 0);
  return std::make_unique<runtime::Runtime>(std::move(opened.accelerators), Config{}, &kernels::reference_level3);
}

/// @return the number of restarts
template <Scalar T>
std::int64_t factor(runtime::Runtime& runtime, const test::ColumnsCase& c, index_t columns) {
  test::ColumnsFixture<T> fixture(c, 11);
  try {
    const runtime::JobStatistics statistics = fixture.run(runtime, columns);
    EXPECT_TRUE(fixture.check(statistics.info)) << "columns " << columns;
    return statistics.restarts;
  } catch (const NoDeviceLeft&) {  // A is unchanged
    return 0;
  }
}

TEST(StandinColumns, PanelsAreFactoredAndApplied) {
  auto runtime = columns_on(1);
  for (const PanelKind kind : all_panels) {
    const test::ColumnsCase c{.kind = kind, .m = 185, .n = 170};
    factor<double>(*runtime, c, 80);
    factor<float>(*runtime, c, 170);
    factor<std::complex<float>>(*runtime, c, 33);
    factor<std::complex<double>>(*runtime, {.kind = kind, .m = 60, .n = 170}, 40);
    factor<double>(*runtime, {.kind = kind, .m = 50, .n = 50, .zero_column = 20}, 16);
  }
  runtime.reset();
  for (const auto& [kind, number] : cuda_standin::held()) ADD_FAILURE() << number << ' ' << kind << " not given back";
  for (const std::string& offence : cuda_standin::offences()) ADD_FAILURE() << offence;
}

TEST(StandinColumns, FaultsLeaveFactorsRight) {
  std::int64_t restarts = 0;
  for (const int gpus : {1, 2}) {
    for (const char* const call : {"kernel", "copy down", "copy up", "cusolverDnDgeqrf", "cusolverDnDgetrf"}) {
      for (const std::int64_t number : {0, 1, 2, 5, 9, 14, 20}) {
        for (const PanelKind kind : all_panels) {
          const auto runtime = columns_on(gpus);
          std::ostringstream what;
          what << call << ' ' << number << ", " << gpus << " GPUs, " << kernels::name_of(kind);
          SCOPED_TRACE(what.str());
          cuda_standin::inject({call, number, cudaErrorLaunchFailure, true});
          restarts += factor<double>(*runtime, {.kind = kind, .m = 43, .n = 43}, 8);
          cuda_standin::count_calls();
        }
      }
    }
  }
  EXPECT_GT(restarts, 20);
}

}  // namespace columns_test
}  // namespace tessera
