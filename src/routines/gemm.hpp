// C = alpha * op_a(A) * op_b(B) + beta * C as tile tasks.
#pragma once

#include <memory>

#include "core/level3.hpp"
#include "runtime/runtime.hpp"
#include "runtime/task_graph.hpp"

namespace tessera::routines {

/// Runs the problem on the runtime's devices. @pre m, n, k >= 1 and alpha != 0
/// @param tile forced tile size (TESSERA_TILE), 0: chosen from the problem and the machine
/// @throws OutOfDeviceMemory, DeviceLost (see Runtime::run)
runtime::JobStatistics run_gemm(runtime::Runtime& runtime, const Level3& problem, index_t tile = 0);

}  // namespace tessera::routines
