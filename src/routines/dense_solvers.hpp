// Problems of LAPACK that one device solves whole: eigenvalues, singular values, least squares, reflectors, inverses
// (calls/lapack_call.hpp). Column-major, from host memory to host memory. trtrs is among them by its interface; it is a trsm of
// all devices.
#pragma once

#include <optional>

#include "calls/lapack_call.hpp"
#include "runtime/runtime.hpp"

namespace tessera::routines {

/// Solves a checked problem on one of the runtime's devices.
/// @param algorithm of singular values; nullopt: what the device chooses @pre no size is 0
/// @param tile and @param cpu of trtrs, as routines::run() takes them
/// @return with info as LAPACK's; where it is not 0, nothing but the found zero on a diagonal (trtrs and inverses) or the order
/// of a minor of B (hegvd, n + i) has been told, and nothing is written
/// @throws as Runtime::run_dense: but for DeviceLost, LAPACK may solve the problem now, whose inputs are as they were
runtime::JobStatistics solve_dense(runtime::Runtime& runtime, const LapackCall& problem,
                                   std::optional<kernels::SvdAlgorithm> algorithm = std::nullopt, index_t tile = 0,
                                   const runtime::CpuHelp& cpu = {});

/// The place, from 1, of the first zero on a diagonal by which LAPACK refuses the problem; 0: there is none.
index_t forbidding_zero(const LapackCall& problem);

/// A problem of no size takes as long: launches, and the way to the host and back between its parts.
inline constexpr double least_dense_s = 1e-3;

}  // namespace tessera::routines
