// The names under which programs know BLAS and LAPACK routines: dgemm_, cblas_dgemm, dgemm_64_, scipy_cblas_dgemm64_,
// LAPACKE_dgetrf, ... taken apart into the routine and how its name is dressed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::tools {

struct BlasName {
  std::string routine;  ///< with its letter: "dgemm", "dgemm_batch", "dgetrf"
  bool lapack = false;  ///< a LAPACK routine; else Level 3 of BLAS
  /// What is around the routine: "scipy_", "" ... and "_", "_64_", "64_", ... One library dresses all its names alike.
  std::string prefix;
  std::string suffix;
  bool c_interface = false;  ///< cblas_ or LAPACKE_

  /// Dressed as plain BLAS: nothing in the name tells the width of its integers.
  bool is_plain() const { return prefix.empty() && suffix.find("64") == std::string::npos; }
};

/// @return nothing if `symbol` is neither Level 3 nor a LAPACK routine that spends its time in Level 3. A name with a
/// prefix of its own (mylib_dgemm_) is taken apart too; whether it is BLAS is for the caller to find out.
std::optional<BlasName> parse_blas_name(std::string_view symbol);

/// What OpenBLAS answers inside itself (LU and Cholesky with all that belongs to them), as opposed to what it took from
/// the reference LAPACK. `routine` as in BlasName.
bool openblas_has_own(std::string_view routine);

/// libtessera_lapack.so has this name, or that of the Fortran routine that a C interface (LAPACKE_dgetrf) calls.
bool is_taken_whole(const BlasName& name);

}  // namespace tessera::tools
