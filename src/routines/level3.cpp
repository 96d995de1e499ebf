#include "routines/level3.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tessera::routines {
namespace {

// Memory that others take while a call is planned makes another plan. Who takes and gives back all the time is not
// waited for.
constexpr int most_plans = 8;

}  // namespace

index_t worthwhile_devices(const runtime::TaskGraph& graph, const runtime::Machine& machine) {
  if (machine.share_bytes <= 0) return machine.devices;
  return std::clamp<index_t>(graph.compulsory_up_bytes() / machine.share_bytes, 1, std::max(machine.devices, 1));
}

runtime::JobStatistics run(runtime::Runtime& runtime, const Level3& call, index_t tile, const runtime::CpuHelp& cpu) {
  if (call.m < 1 || call.n < 1 || call.only_scales()) throw InternalError(name_of(call) + ": nothing to multiply");
  const auto make = call.is_triangular() ? make_triangular : make_accumulation;
  for (int plan = 0; plan < most_plans; ++plan) {
    // Later plans count on what the devices could give for the earlier ones.
    runtime::Machine machine = runtime.machine(plan == 0);
    if (machine.devices == 0) throw NoDeviceLeft("no device works any more");
    auto graph = make(call, machine, tile);
    if (const index_t devices = worthwhile_devices(*graph, machine); devices < machine.devices) {
      machine.devices = static_cast<int>(devices);
      graph = make(call, machine, tile);
    }
    if (auto statistics = runtime.run(*graph, machine, cpu)) return *std::move(statistics);
  }
  throw OutOfDeviceMemory("the devices could not give the memory of " + std::to_string(most_plans) +
                          " plans, each for less than the one before");
}

}  // namespace tessera::routines
