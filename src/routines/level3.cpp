#include "routines/level3.hpp"

#include <vector>

#include "core/error.hpp"
#include "routines/plan.hpp"

namespace tessera::routines {
namespace {

// Memory that others take while a call is planned makes another plan. Who takes and gives back all the time is not
// waited for.
constexpr int most_plans = 8;

}  // namespace

runtime::JobStatistics run(runtime::Runtime& runtime, const Level3& call, index_t tile, const runtime::CpuHelp& cpu) {
  if (call.m < 1 || call.n < 1 || call.only_scales()) throw InternalError(name_of(call) + ": nothing to multiply");
  for (int attempt = 0; attempt < most_plans; ++attempt) {
    // Later plans count on what the devices could give for the earlier ones.
    const std::vector<runtime::Machine> machines = runtime.machines(call.type, attempt == 0);
    if (machines.empty() && !runtime.devices().empty()) throw OutOfDeviceMemory("the devices have no memory left");
    if (machines.empty()) throw NoDeviceLeft("no device works any more");
    const Plan plan = choose_plan(call, machines, tile);
    if (auto statistics = runtime.run(*plan.graph, plan.machine, cpu)) return *std::move(statistics);
  }
  throw OutOfDeviceMemory("the devices could not give the memory of " + std::to_string(most_plans) +
                          " plans, each for less than the one before");
}

}  // namespace tessera::routines
