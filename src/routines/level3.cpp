#include "routines/level3.hpp"

#include "core/error.hpp"

namespace tessera::routines {

runtime::JobStatistics run(runtime::Runtime& runtime, const Level3& call, index_t tile, const runtime::CpuHelp& cpu) {
  if (call.m < 1 || call.n < 1 || call.only_scales()) throw InternalError(name_of(call) + ": nothing to multiply");
  const auto make = call.is_triangular() ? make_triangular : make_accumulation;
  return runtime.run(*make(call, runtime.machine(), tile), cpu);
}

}  // namespace tessera::routines
