// Every function of CUDA that the plugin calls fails, at its first, a middle and its last call. This happens while
// devices are opened, while a product or a triangular solve is computed, and while devices are closed. Each function
// fails once by itself, and once so that the context is broken. Kernels and copies under way fail, too. The result is
// right after every fault. A device is lost only by a fault that it cannot survive. All resources are released.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string_view>

#include "core/config.hpp"
#include "core/error.hpp"
#include "kernels/reference/reference.hpp"
#include "routines/level3.hpp"
#include "runtime/runtime.hpp"
#include "tests/cuda_faults/faults.hpp"
#include "tests/cuda_faults/standin_machine.hpp"
#include "tests/level3_problem.hpp"

namespace tessera::routines {
namespace calls_test {

using cuda_standin::Fault;
using test::fails_with_the_driver;
using test::faults_of;
using test::gives_back;
using test::is_operation;

constexpr index_t small_tile = 16;

struct Scenario {
  std::string name;
  Routine routine = Routine::gemm;
  int gpus = 1;
  int copy_threads = 0;
  bool locks = false;  ///< operands are large enough to be page-locked
  bool whole = false;  ///< memory is taken by cudaMalloc
  bool peers = true;
  OldValuesPlace keeps = OldValuesPlace::peers;

  index_t tile() const { return locks ? 128 : small_tile; }
  friend std::ostream& operator<<(std::ostream& out, const Scenario& scenario) { return out << scenario.name; }
};

enum class Phase { open, call, close };
constexpr Phase phases[] = {Phase::open, Phase::call, Phase::close};
constexpr const char* name_of_phase[] = {"opening", "calling", "closing"};

/// The outcome of a program.
struct Outcome {
  std::map<std::string, std::int64_t> calls;  ///< of the phase
  bool fault_has_happened = false;
  std::int64_t restarts = 0;
  std::size_t devices_left = 0;      ///< after two calls
  std::int64_t tasks_of_second = 0;  ///< of the second call, done by devices
  bool second_was_smooth = false;
};

test::Level3Case problem_of(const Scenario& scenario) {
  test::Level3Case problem{.routine = scenario.routine,
                           .m = 3 * small_tile + 3,
                           .n = 3 * small_tile + 5,
                           .k = 3 * small_tile + 1,
                           .alpha = 2,
                           .beta = scenario.routine == Routine::trsm ? 0 : 1};
  if (scenario.locks) {  // C takes more than a megabyte
    problem.n = 2700;
    problem.k = 2;
  }
  return problem;
}

index_t tasks_of(const Scenario& scenario) {
  const test::Level3Case problem = problem_of(scenario);
  const auto tiles = [&](index_t extent) { return (extent + scenario.tile() - 1) / scenario.tile(); };
  return tiles(problem.m) * tiles(problem.n);
}

/// Like routines::run, but on all devices even if the problem is small.
runtime::JobStatistics run_on_all(runtime::Runtime& runtime, const Level3& call, index_t tile) {
  const auto make = call.is_triangular() ? make_triangular : make_accumulation;
  for (int plan = 0; plan < 8; ++plan) {
    const auto machines = runtime.machines(call.type, plan == 0);
    if (machines.empty() && runtime.devices().empty()) throw NoDeviceLeft("no device works any more");
    if (machines.empty()) break;
    const auto graph = make(call, machines.front(), tile);
    if (auto statistics = runtime.run(*graph, machines.front())) return *std::move(statistics);
  }
  throw OutOfDeviceMemory("no plan fits");
}

/// Whether a tile of C may be lost: one GPU writes it, another keeps its old value, and both are lost.
bool may_be_torn(const Scenario& scenario, const Fault* fault) {
  const bool all_are_lost = fault != nullptr && fails_with_the_driver(fault->call);
  return all_are_lost && scenario.gpus > 1 && scenario.peers && scenario.keeps == OldValuesPlace::peers;
}

/// One call; the CPU finishes it if the devices refuse it, as in Context.
/// @param fault that has been or will be injected, or nullptr
/// @return statistics if it ran on devices
std::optional<runtime::JobStatistics> compute(runtime::Runtime* runtime, const Scenario& scenario, const Fault* fault,
                                              unsigned seed) {
  test::Level3Fixture<double> fixture(problem_of(scenario), seed);
  std::optional<runtime::JobStatistics> statistics;
  try {
    if (runtime == nullptr) throw NoDeviceLeft("they could not be opened");
    statistics = run_on_all(*runtime, fixture.problem(), scenario.tile());
  } catch (const NoDeviceLeft&) {
    kernels::reference_level3(fixture.problem());
  } catch (const OutOfDeviceMemory&) {
    kernels::reference_level3(fixture.problem());
  } catch (const std::exception& error) {
    const bool is_torn =
        std::string_view(error.what()).find("while it wrote a tile of C back") != std::string_view::npos;
    EXPECT_TRUE(is_torn && may_be_torn(scenario, fault)) << error.what();
    return statistics;
  }
  EXPECT_TRUE(fixture.check());
  return statistics;
}

std::int64_t tasks_of_devices(const runtime::JobStatistics& statistics) {
  std::int64_t tasks = 0;
  for (const auto& device : statistics.devices) tasks += device.device == "cpu" ? 0 : device.tasks;
  return tasks;
}

/// Opens devices, computes twice, and closes them; the fault is injected when the phase begins.
Outcome run_program(const Scenario& scenario, Phase at, const Fault* fault) {
  Outcome outcome;
  cuda_standin::start({.gpus = scenario.gpus, .peers = scenario.peers});
  const auto begin = [&](Phase phase) {
    if (phase != at) return;
    fault != nullptr ? cuda_standin::inject(*fault) : cuda_standin::count_calls();
  };
  const auto end = [&](Phase phase) {
    if (phase == at) outcome.calls = cuda_standin::calls();
  };
  begin(Phase::open);
  Config config;
  config.keep_old_values = scenario.keeps;
  config.memory_mode = scenario.whole ? MemoryMode::whole : MemoryMode::grow;
  if (scenario.whole) config.device_memory_bytes = std::size_t{64} << 20;
  std::unique_ptr<runtime::Runtime> runtime;
  try {
    auto opened = test::open_standin_gpus(scenario.gpus, scenario.copy_threads);
    runtime = std::make_unique<runtime::Runtime>(std::move(opened.accelerators), config, &kernels::reference_level3);
  } catch (const Error&) {  // the CPU computes the call then
  }
  end(Phase::open);
  EXPECT_TRUE(fault != nullptr || runtime != nullptr);

  begin(Phase::call);
  const auto first = compute(runtime.get(), scenario, fault, 1);
  if (first) outcome.restarts = first->restarts;
  end(Phase::call);
  if (at == Phase::call) outcome.fault_has_happened = cuda_standin::has_happened();
  const auto second = compute(runtime.get(), scenario, fault, 2);
  if (runtime) outcome.devices_left = runtime->devices().size();
  if (second) outcome.tasks_of_second = tasks_of_devices(*second);
  outcome.second_was_smooth = second && second->restarts == 0;

  begin(Phase::close);
  runtime.reset();
  end(Phase::close);
  if (at != Phase::call) outcome.fault_has_happened = cuda_standin::has_happened();
  return outcome;
}

class CallsWithFaults : public ::testing::TestWithParam<Scenario> {
 protected:
  static void check_what_is_left(const Fault& fault) {
    auto held = cuda_standin::held();
    // Streams hold events of other devices that they had to wait for, and devices are closed one after the other.
    if (GetParam().gpus > 1) held.erase("events");
    std::ostringstream text;
    for (const auto& [kind, number] : held) text << number << ' ' << kind << ' ';
    const bool excused = gives_back(fault.call) && !fault.stays;
    EXPECT_TRUE(held.empty() || excused) << "not given back: " << text.str();
    for (const std::string& offence : cuda_standin::offences()) ADD_FAILURE() << offence;
  }
};

TEST_P(CallsWithFaults, AreRight) {
  const Scenario& scenario = GetParam();
  const auto gpus = static_cast<std::size_t>(scenario.gpus);
  int happened = 0;
  int restarts = 0;
  for (const Phase phase : phases) {
    const Outcome whole = run_program(scenario, phase, nullptr);
    EXPECT_EQ(whole.restarts, 0);
    EXPECT_EQ(whole.tasks_of_second, tasks_of(scenario));
    check_what_is_left({});
    for (const Fault& fault : faults_of(whole.calls)) {
      std::ostringstream what;
      what << name_of_phase[static_cast<int>(phase)] << ": " << fault;
      SCOPED_TRACE(what.str());
      const Outcome outcome = run_program(scenario, phase, &fault);
      check_what_is_left(fault);
      if (!outcome.fault_has_happened) continue;
      ++happened;
      restarts += outcome.restarts > 0;
      if (phase != Phase::call) continue;
      // A worker that cannot begin loses its device, too.
      const bool is_one = fault.stays || is_operation(fault.call) || fault.call == "cudaSetDevice";
      const std::size_t lost = fails_with_the_driver(fault.call) ? gpus : is_one ? 1 : 0;
      // A fault in its last call may go unnoticed if the device has no part in the second product. Memory is unlocked
      // behind the last task.
      const bool may_be_last = fault.number > 0 || fault.call == "cudaHostUnregister";
      const bool unnoticed = fault.stays && may_be_last && outcome.devices_left == gpus;
      EXPECT_TRUE(outcome.devices_left == gpus - lost || unnoticed) << outcome.devices_left;
      if (outcome.devices_left > 0) {
        EXPECT_EQ(outcome.tasks_of_second, tasks_of(scenario));
        // The very last call of the first product may have broken a context, which shows in the second one.
        EXPECT_TRUE(outcome.second_was_smooth || fault.stays);
      }
    }
  }
  RecordProperty("faults", happened);
  RecordProperty("restarts", restarts);
  EXPECT_GT(happened, 150);
  EXPECT_GT(restarts, 30);
}

// Once for each lost device in all calls. Without the message a user would never learn why GPUs are idle.
TEST(CallsOnLostDevices, AreToldOfOnce) {
  cuda_standin::start({.gpus = 2});
  auto opened = test::open_standin_gpus(2, 0);
  runtime::Runtime runtime(std::move(opened.accelerators), Config{}, &kernels::reference_level3);
  const Scenario scenario{.name = "told", .gpus = 2};
  testing::internal::CaptureStderr();
  cuda_standin::inject({"kernel", 3, cudaErrorLaunchFailure, true});
  compute(&runtime, scenario, nullptr, 1);
  compute(&runtime, scenario, nullptr, 2);
  cuda_standin::inject({"kernel", 3, cudaErrorLaunchFailure, true});
  compute(&runtime, scenario, nullptr, 3);
  compute(&runtime, scenario, nullptr, 4);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  for (const char* const told : {"tessera: cuda:0 is lost", "tessera: cuda:1 is lost"}) {
    EXPECT_NE(text.find(told), std::string::npos) << text;
    EXPECT_NE(text.find("cudaError"), std::string::npos) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Standin, CallsWithFaults,
    ::testing::Values(Scenario{.name = "gemm"}, Scenario{.name = "trsm", .routine = Routine::trsm},
                      Scenario{.name = "gemm_two", .gpus = 2},
                      Scenario{.name = "trsm_two", .routine = Routine::trsm, .gpus = 2},
                      Scenario{.name = "gemm_staged", .copy_threads = 2},
                      Scenario{.name = "trsm_staged", .routine = Routine::trsm, .copy_threads = 2},
                      Scenario{.name = "gemm_two_staged", .gpus = 2, .copy_threads = 2},
                      Scenario{.name = "gemm_slices", .copy_threads = 2, .keeps = OldValuesPlace::in_place},
                      Scenario{.name = "trsm_two_slices",
                               .routine = Routine::trsm,
                               .gpus = 2,
                               .copy_threads = 2,
                               .keeps = OldValuesPlace::in_place},
                      Scenario{.name = "gemm_two_locked", .gpus = 2, .locks = true},
                      Scenario{.name = "gemm_two_whole", .gpus = 2, .whole = true},
                      Scenario{.name = "gemm_two_host", .gpus = 2, .keeps = OldValuesPlace::host},
                      Scenario{
                          .name = "trsm_two_host", .routine = Routine::trsm, .gpus = 2, .keeps = OldValuesPlace::host},
                      Scenario{.name = "trsm_two_apart", .routine = Routine::trsm, .gpus = 2, .peers = false}),
    [](const auto& info) { return info.param.name; });

}  // namespace calls_test
}  // namespace tessera::routines
