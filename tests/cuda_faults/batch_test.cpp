// Every function of CUDA that the plugin calls for a batch fails, at its first, a middle and its last call: once by itself, and once so
// that the context is broken. So do kernels and copies on their way. The results are right, whatever failed, and everything is given back.
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/gemm_batch.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/runtime.hpp"
#include "tests/cuda_faults/faults.hpp"
#include "tests/cuda_faults/standin_machine.hpp"

namespace tessera::runtime {
namespace {

using cuda_standin::Fault;

struct BatchScenario {
  std::string name;
  int gpus = 1;
  int copy_threads = 0;
  friend std::ostream& operator<<(std::ostream& out, const BatchScenario& scenario) { return out << scenario.name; }
};

/// Small products in both forms of beta, enough for several chunks.
class Products {
 public:
  explicit Products(unsigned seed) : random_(seed) {
    for (int i = 0; i < count; ++i) add(20 + size(30), 20 + size(30), size(20), i % 2);
  }
  GemmBatch batch() {
    GemmBatchBuilder builder(ScalarType::d);
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const auto& [m, n, k, beta, a, b, c] = sizes_[i];
      builder.add(
          {.arguments =
               {.op_a = Op::no_trans, .op_b = Op::no_trans, .m = m, .n = n, .k = k, .lda = m, .ldb = k, .ldc = m + 1},
           .beta = static_cast<double>(beta),
           .A = {.first = values_.data() + a},
           .B = {.first = values_.data() + b},
           .C = {.first = values_.data() + c},
           .count = 1});
    }
    return builder.take();
  }
  const std::vector<double>& values() const { return values_; }
  static constexpr int count = 200;

 private:
  struct Sizes {
    index_t m, n, k;
    int beta;
    std::size_t a, b, c;
  };
  index_t size(unsigned most) { return static_cast<index_t>(1 + random_() % most); }
  std::size_t matrix(index_t elements) {
    const std::size_t at = values_.size();
    for (index_t i = 0; i < elements; ++i) values_.push_back(static_cast<double>(random_() % 1024) / 256);
    return at;
  }
  void add(index_t m, index_t n, index_t k, int beta) {
    const std::size_t a = matrix(m * k), b = matrix(k * n), c = matrix((m + 1) * n);
    sizes_.push_back({m, n, k, beta, a, b, c});
  }

  std::mt19937 random_;
  std::vector<Sizes> sizes_;
  std::vector<double> values_;
};

/// One batch, finished by the CPU where the devices do not take it. @return statistics if it ran on devices
std::optional<JobStatistics> compute(Runtime& runtime, unsigned seed) {
  Products products(seed), same(seed);
  const GemmBatch batch = products.batch(), expected = same.batch();
  const auto by_loops = [](const GemmBatch& some, index_t first, index_t last) {
    for (index_t i = first; i < last; ++i) kernels::reference_level3(some.call(i));
  };
  by_loops(expected, 0, expected.size());
  std::optional<JobStatistics> statistics;
  try {
    statistics = runtime.run_batch(batch, [&](index_t first, index_t last) { by_loops(batch, first, last); });
  } catch (const NoDeviceLeft&) {
    by_loops(batch, 0, batch.size());
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  EXPECT_EQ(products.values(), same.values());
  return statistics;
}

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
  EXPECT_EQ(whole.by_devices, Products::count);
  EXPECT_EQ(whole.by_devices_then, Products::count);
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
    // A device that goes on, or another one, computes the next batch.
    if (outcome.devices_left > 0) {
      EXPECT_EQ(outcome.by_devices_then, Products::count);
    }
    if (!fault.stays && !test::is_operation(fault.call) && !test::fails_with_the_driver(fault.call)) {
      EXPECT_EQ(outcome.devices_left, static_cast<std::size_t>(GetParam().gpus)) << "lost for a mere refusal";
    }
  }
  RecordProperty("faults", happened);
  EXPECT_GT(happened, 40);
}

INSTANTIATE_TEST_SUITE_P(Standin, BatchesWithFaults,
                         ::testing::Values(BatchScenario{.name = "one"},
                                           BatchScenario{.name = "two_staged", .gpus = 2, .copy_threads = 2}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::runtime
