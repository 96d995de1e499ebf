// The BLAS routines as tile tasks. Eight routines accumulate (accumulation.cpp), two are triangular
// (triangular.cpp).
#pragma once

#include <memory>
#include <vector>

#include "calls/level3.hpp"
#include "runtime/devices/machine.hpp"
#include "runtime/runtime.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::routines {

/// gemm, gemmt, symm, hemm, syrk, herk, syr2k, her2k.
std::unique_ptr<runtime::TaskGraph> make_accumulation(const Level3& call, const runtime::Machine& machine,
                                                      index_t tile);
/// trmm, trsm.
std::unique_ptr<runtime::TaskGraph> make_triangular(const Level3& call, const runtime::Machine& machine, index_t tile);

/// The matrices that it reads besides C.
std::vector<device::HostMatrix> inputs_of(const Level3& call);
/// All matrices of the call.
std::vector<device::Touched> touched_by(const Level3& call);

/// Runs a checked call on the runtime's devices. trmm's B is C. @pre all dimensions >= 1 and alpha != 0
/// @param tile forced tile size (TESSERA_TILE), 0: chosen from the problem and the machine
/// @param cpu  what the CPU does of it
/// @throws NoDeviceLeft, OutOfDeviceMemory, DeviceLost (see Runtime::run)
runtime::JobStatistics run(runtime::Runtime& runtime, const Level3& call, index_t tile = 0,
                           const runtime::CpuHelp& cpu = {});

}  // namespace tessera::routines
