// Every function of CUDA that the plugin calls for a batch fails, at its first, a middle and its last call. Each fails
// once by itself, and once so that the context is broken. Kernels and copies under way fail, too. The results are right
// after every fault, and all resources are released.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <string>

#include "core/config.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/runtime.hpp"
#include "tests/cuda_faults/faults.hpp"
#include "tests/cuda_faults/standin_machine.hpp"
#include "tests/lapack_systems.hpp"
#include "tests/product_batch.hpp"

namespace tessera::runtime {
namespace batch_test {

using cuda_standin::Fault;

struct BatchScenario {
  std::string name;
  int gpus = 1;
  int copy_threads = 0;
  std::optional<Routine> lapack = {};  ///< else products
  friend std::ostream& operator<<(std::ostream& out, const BatchScenario& scenario) { return out << scenario.name; }
};

std::int64_t products_of_devices(const JobStatistics& statistics) {
  std::int64_t products = 0;
  for (const auto& device : statistics.devices) products += device.device == "cpu" ? 0 : device.tasks;
  return products;
}

class BatchesWithFaults : public ::testing::TestWithParam<BatchScenario> {
 protected:
  struct Outcome {
    std::map<std::string, std::int64_t> calls;
    bool has_happened = false;
    std::int64_t by_devices = 0;  ///< of the first batch
    std::int64_t by_devices_then = 0;
    std::size_t devices_left = 0;
  };

  static std::optional<JobStatistics> compute(Runtime& runtime, unsigned seed) {
    const auto& routine = GetParam().lapack;
    return routine ? test::compute_lapack_batch(runtime, *routine, seed) : test::compute_batch(runtime, seed);
  }

  static Outcome run_program(const Fault* fault) {
    const BatchScenario& scenario = GetParam();
    Outcome outcome;
    cuda_standin::start({.gpus = scenario.gpus});
    auto opened = test::open_standin_gpus(scenario.gpus, scenario.copy_threads);
    auto runtime = std::make_unique<Runtime>(std::move(opened.accelerators), Config{}, &kernels::reference_level3);
    fault != nullptr ? cuda_standin::inject(*fault) : cuda_standin::count_calls();
    if (const auto first = compute(*runtime, 1)) outcome.by_devices = products_of_devices(*first);
    outcome.calls = cuda_standin::calls();
    outcome.has_happened = cuda_standin::has_happened();
    if (const auto second = compute(*runtime, 2)) outcome.by_devices_then = products_of_devices(*second);
    outcome.devices_left = runtime->devices().size();
    runtime.reset();
    return outcome;
  }

  static void check_what_is_left(const Fault& fault) {
    auto held = cuda_standin::held();
    if (GetParam().gpus > 1) held.erase("events");
    std::ostringstream text;
    for (const auto& [kind, number] : held) text << number << ' ' << kind << ' ';
    const bool excused = test::gives_back(fault.call) && !fault.stays;
    EXPECT_TRUE(held.empty() || excused) << "not given back: " << text.str();
    for (const std::string& offence : cuda_standin::offences()) ADD_FAILURE() << offence;
  }
};

TEST_P(BatchesWithFaults, AreRight) {
  const Outcome whole = run_program(nullptr);
  EXPECT_EQ(whole.by_devices, test::Products::count);
  EXPECT_EQ(whole.by_devices_then, test::Products::count);
  check_what_is_left({});
  int happened = 0;
  for (const Fault& fault : test::faults_of(whole.calls)) {
    std::ostringstream what;
    what << fault;
    SCOPED_TRACE(what.str());
    const Outcome outcome = run_program(&fault);
    check_what_is_left(fault);
    if (!outcome.has_happened) continue;
    ++happened;
    // The device, if it continues, or another one computes the next batch.
    if (outcome.devices_left > 0) {
      EXPECT_EQ(outcome.by_devices_then, test::Products::count);
    }
    if (!fault.stays && !test::is_operation(fault.call) && !test::fails_with_the_driver(fault.call)) {
      EXPECT_EQ(outcome.devices_left, static_cast<std::size_t>(GetParam().gpus)) << "lost for a mere refusal";
    }
  }
  RecordProperty("faults", happened);
  EXPECT_GT(happened, 40);
}

INSTANTIATE_TEST_SUITE_P(
    Standin, BatchesWithFaults,
    ::testing::Values(BatchScenario{.name = "one"}, BatchScenario{.name = "two_staged", .gpus = 2, .copy_threads = 2},
                      BatchScenario{.name = "gesv", .lapack = Routine::gesv},
                      BatchScenario{.name = "getri", .lapack = Routine::getri},
                      BatchScenario{.name = "potrs", .lapack = Routine::potrs},
                      BatchScenario{.name = "posv_two_staged", .gpus = 2, .copy_threads = 2, .lapack = Routine::posv}),
    [](const auto& info) { return info.param.name; });

}  // namespace batch_test
}  // namespace tessera::runtime
