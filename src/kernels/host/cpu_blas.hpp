// The CPU BLAS of the machine, opened at run time and never linked, so that preloading Tessera does not pull another
// BLAS in front of the program's own. Used by host devices for their tiles, for calls that are not worth offloading, and to
// finish jobs whose devices failed.
#pragma once

#include <memory>
#include <string>

#include "core/scalar.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

/// Fortran entry points of a CPU BLAS with 32-bit integers: all nine Level-3 routines, or it is not taken.
class CpuBlas {
 public:
  /// Opens `path`, or, if it is empty, the first found of: the BLAS that the program itself was linked with (`next_gemm`: the
  /// address of its `dgemm_` as the preload library sees it behind itself, or nullptr), libopenblas, libblas.
  /// Opened with RTLD_LOCAL (and RTLD_DEEPBIND unless a sanitizer runs), everything resolved at once, on the calling thread.
  /// @throws NotAvailable with what was tried
  static std::shared_ptr<const CpuBlas> open(const std::string& path, void* next_gemm = nullptr);

  virtual ~CpuBlas() = default;
  /// File that it came from.
  virtual const std::string& path() const noexcept = 0;
  /// Computes any of the routines now, on the calling thread and whatever threads the BLAS has of its own. Sizes beyond
  /// its 32-bit integers are handled: gemm in pieces, all else by the reference. m, n, k may be 0; trmm takes B apart
  /// from C, or C.
  virtual void run(const Level3& call) const = 0;
};

}  // namespace tessera::kernels
