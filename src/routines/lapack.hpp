// Factorizations of LAPACK as tile tasks (cholesky.cpp, block_columns.cpp).
#pragma once

#include <span>

#include "calls/lapack_call.hpp"
#include "core/scalar.hpp"
#include "routines/plan.hpp"
#include "runtime/devices/machine.hpp"
#include "runtime/runtime.hpp"

namespace tessera::routines {

/// potrf: A = L L^H, or U^H U, in place of the triangle that `uplo` names; the other one is neither read nor written.
/// Column-major.
struct CholeskyCall {
  ScalarType type = ScalarType::d;
  Uplo uplo = Uplo::lower;
  index_t n = 0;
  void* A = nullptr;
  index_t lda = 0;
};

/// As for Level 3. @pre machines is not empty
Plan choose_plan(const CholeskyCall& call, std::span<const runtime::Machine> machines, index_t tile);

/// Runs a checked call on the runtime's devices. @pre n >= 1
/// @param tile forced tile size, 0: chosen from the problem and the machine
/// @return with info as LAPACK's. If it is the order of a minor, what columns of tiles before the one that it ends in
/// hold is final, and what lies behind may be anything between A and the factor.
/// @throws NoDeviceLeft, OutOfDeviceMemory, DeviceLost (see Runtime::run)
runtime::JobStatistics cholesky(runtime::Runtime& runtime, const CholeskyCall& call, index_t tile = 0,
                                const runtime::CpuHelp& cpu = {});

/// getrf: P A = L U with partial pivoting, in place of A, m x n. Column-major.
struct LuCall {
  ScalarType type = ScalarType::d;
  index_t m = 0, n = 0;
  void* A = nullptr;
  index_t lda = 0;
  index_t* ipiv = nullptr;  ///< min(m, n): row i was interchanged with row ipiv[i], from 1
};

/// geqrf: A = Q R in place of A, m x n, with the min(m, n) coefficients of the reflectors. Column-major. If reflectors are
/// stored in rows, gelqf: A = L Q.
struct QrCall {
  ScalarType type = ScalarType::d;
  index_t m = 0, n = 0;
  void* A = nullptr;
  index_t lda = 0;
  void* tau = nullptr;
  ReflectorStorage storage = ReflectorStorage::columns;
};

/// As for Level 3. @pre machines is not empty
Plan choose_plan(const LuCall& call, std::span<const runtime::Machine> machines, index_t columns);
Plan choose_plan(const QrCall& call, std::span<const runtime::Machine> machines, index_t columns);

/// Run a checked call on the runtime's devices. @pre m, n >= 1
/// @param columns of a block column, or rows of a block row; 0: chosen
/// @return with info as LAPACK's
/// @throws as cholesky(), NotAvailable if a device has no LAPACK; A is as it was unless DeviceLost says otherwise
runtime::JobStatistics lu(runtime::Runtime& runtime, const LuCall& call, index_t columns = 0,
                          const runtime::CpuHelp& cpu = {});
runtime::JobStatistics qr(runtime::Runtime& runtime, const QrCall& call, index_t columns = 0,
                          const runtime::CpuHelp& cpu = {});

}  // namespace tessera::routines
