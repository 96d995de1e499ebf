#include "routines/level3.hpp"

#include "core/error.hpp"
#include "routines/plan.hpp"

namespace tessera::routines {

runtime::JobStatistics run(runtime::Runtime& runtime, const Level3& call, index_t tile, const runtime::CpuHelp& cpu) {
  if (call.m < 1 || call.n < 1 || call.only_scales()) throw InternalError(name_of(call) + ": nothing to multiply");
  return run_planned(
      runtime, call.type, [&](auto machines) { return choose_plan(call, machines, tile); }, cpu);
}

}  // namespace tessera::routines
