// The CPU BLAS of the machine, opened at run time and never linked, so that preloading Tessera does not pull another
// BLAS in front of the program's own. Used by host devices for their tiles, for calls that are not worth offloading, to
// finish jobs whose devices failed, and to answer the routines that Tessera only forwards.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/scalar.hpp"
#include "kernels/host/cpu_lapack.hpp"
#include "kernels/host/symbol_scheme.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

/// For whom a CPU BLAS is looked for.
struct CpuBlasSearch {
  SymbolScheme scheme = plain_symbols;  ///< the names that the program calls
  int integer_bits = 32;                ///< of the integers that it passes
  /// Other routines are called in it besides Level 3, with the program's own arguments: its integers must be as wide as
  /// theirs.
  bool all_levels = false;
  /// Looks for the program's own BLAS among the objects that are loaded already, wherever they were opened.
  bool among_loaded = false;
  /// The gemm that the caller sees behind itself, or nullptr: the BLAS that the program was linked with.
  void* next_gemm = nullptr;
  /// Its inner calls stay inside it (RTLD_DEEPBIND). Off where the program's own xerbla_ must reach it, and under
  /// sanitizers, whose run-time libraries refuse the flag.
  bool deep_bind = true;
};

/// Threads that the program lets a BLAS have.
struct BlasThreads {
  int own = 1;     ///< that it uses for a call; 1, too, where its small products may not be left to several threads
  int openmp = 0;  ///< that a parallel region of the calling thread would have; 0: the program uses no OpenMP
  bool in_team = false;  ///< the calling thread is one of a parallel region
};

/// The Fortran entry points of a CPU BLAS: all Level-3 routines, or it is not taken. Only gemmt, which BLAS libraries
/// got late and some of them wrong, is made of gemm where there is none to be trusted. Integers are passed by address
/// there, so that 64-bit variables serve libraries of both widths.
class CpuBlas {
 public:
  /// Opens `path`, or, if it is empty, the first found of: `next_gemm`'s library, a loaded one with the same names, the
  /// libraries of the distribution. Never one of our own libraries.
  /// Opened with RTLD_LOCAL, everything of Level 3 resolved at once, on the calling thread.
  /// @throws NotAvailable with what was tried
  static std::shared_ptr<const CpuBlas> open(const std::string& path, const CpuBlasSearch& search = {});

  virtual ~CpuBlas() = default;
  /// File that it came from.
  virtual const std::string& path() const noexcept = 0;
  /// 32 or 64.
  virtual int integer_bits() const noexcept = 0;
  /// Address space that it takes for each thread that is inside it at the same time. Where there is none, the thread
  /// never returns: OpenBLAS asks for it for ever.
  virtual std::size_t bytes_per_caller() const noexcept = 0;
  /// As it stands now, for the calling thread.
  virtual BlasThreads threads() const noexcept = 0;
  /// Computes any of the routines now, on the calling thread and whatever threads the BLAS has of its own. Sizes beyond
  /// its integers are handled: gemm and gemmt in pieces, all else by the reference. m, n, k may be 0; trmm takes B
  /// apart from C, or C.
  virtual void run(const Level3& call) const = 0;
  /// The LAPACK that it comes with.
  virtual const LapackFunctions& lapack() const noexcept = 0;
  /// Address of another of its functions, by its Fortran or CBLAS name without prefix and suffix ("ddot"); nullptr: it
  /// has none.
  virtual void* fortran(const char* name) const = 0;
  virtual void* cblas(const char* name) const = 0;
};

}  // namespace tessera::kernels
