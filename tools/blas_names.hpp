// The names under which programs know BLAS and LAPACK routines: dgemm_, cblas_dgemm, dgemm_64_, scipy_cblas_dgemm64_,
// LAPACKE_dgetrf, ... split into the routine and the decoration of its name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::tools {

struct BlasName {
  std::string routine;  ///< with its letter: "dgemm", "dgemm_batch", "dgetrf"
  bool lapack = false;  ///< a LAPACK routine; else Level 3 of BLAS
  /// The decoration: "scipy_", "" ... and "_", "_64_", "64_", ... One library decorates all its names in the same way.
  std::string prefix;
  std::string suffix;
  bool c_interface = false;  ///< cblas_ or LAPACKE_

  /// Decorated as plain BLAS: the name does not show the width of its integers.
  bool is_plain() const { return prefix.empty() && suffix.find("64") == std::string::npos; }
};

/// @return nothing if `symbol` is neither Level 3 nor a LAPACK routine that spends its time in Level 3. A name with an
/// unknown prefix (mylib_dgemm_) is split, too; the caller must find out whether it is BLAS.
std::optional<BlasName> parse_blas_name(std::string_view symbol);

/// Whether OpenBLAS implements the routine itself (LU and Cholesky with all that belongs to them). It takes the other
/// routines from the reference LAPACK. `routine` as in BlasName.
bool openblas_has_own(std::string_view routine);

/// Whether libtessera_lapack.so has this name, or that of the Fortran routine that a C interface (LAPACKE_dgetrf)
/// calls.
bool is_taken_whole(const BlasName& name);

}  // namespace tessera::tools
