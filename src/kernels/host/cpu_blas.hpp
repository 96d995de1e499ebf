// The CPU BLAS of the machine. It is opened at run time and never linked, so that preloading Tessera does not put
// another BLAS in front of the program's own. Host devices use it for their tiles. It also computes calls that are not
// worth offloading, finishes jobs whose devices failed, and answers the routines that Tessera only forwards.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/scalar.hpp"
#include "kernels/host/cpu_lapack.hpp"
#include "kernels/host/symbol_scheme.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels {

/// The requirements on a CPU BLAS.
struct CpuBlasSearch {
  SymbolScheme scheme = plain_symbols;  ///< the names that the program calls
  int integer_bits = 32;                ///< of the integers that it passes
  /// The program's own arguments are passed to routines other than Level 3, too, so the BLAS must have integers of the
  /// same width.
  bool all_levels = false;
  /// Search the objects that are already loaded, however they were opened, for the program's own BLAS.
  bool among_loaded = false;
  /// That BLAS may have other names than the scheme's: of a program that never calls it by name, as Python calls the one in a
  /// wheel. It is preferred to those of the distribution, whose threads would compete with its own.
  bool any_spelling = false;
  /// The next gemm after the caller's in the symbol search order, or nullptr: the BLAS that the program was linked
  /// with.
  void* next_gemm = nullptr;
  /// Its inner calls stay inside it (RTLD_DEEPBIND). This is off where the program's own xerbla_ must be called. It is
  /// off under sanitizers, too, whose run-time libraries reject the flag.
  bool deep_bind = true;
};

/// The threads that the program gives a BLAS.
struct BlasThreads {
  int own = 1;           ///< threads for a call; also 1 if its small products must not be left to several threads
  int openmp = 0;        ///< threads of a parallel region of the calling thread; 0: the program uses no OpenMP
  bool in_team = false;  ///< the calling thread belongs to a parallel region
};

/// The Fortran entry points of a CPU BLAS. It must have all Level-3 routines. Only gemmt is optional: BLAS libraries
/// got it late, and some of them wrong, so it is composed of gemm where it cannot be trusted. Integers are passed by
/// address, so 64-bit variables serve libraries of both widths.
class CpuBlas {
 public:
  /// Opens `path`. If it is empty, opens the first library that is found. The order is: `next_gemm`'s library, a loaded
  /// one with the same names, the libraries of the distribution. Libraries of ours are never opened. The library is
  /// opened with RTLD_LOCAL, and all of Level 3 is resolved at once, on the calling thread. @throws NotAvailable with
  /// the list of attempts
  static std::shared_ptr<const CpuBlas> open(const std::string& path, const CpuBlasSearch& search = {});

  virtual ~CpuBlas() = default;
  /// The file that was opened.
  virtual const std::string& path() const noexcept = 0;
  /// 32 or 64.
  virtual int integer_bits() const noexcept = 0;
  /// Address space that it takes for each thread that is inside it at the same time. If that is not available the
  /// thread never returns: OpenBLAS retries for ever.
  virtual std::size_t bytes_per_caller() const noexcept = 0;
  /// The current state, for the calling thread.
  virtual BlasThreads threads() const noexcept = 0;
  /// Computes any of the routines at once, on the calling thread and on the threads of the BLAS. Sizes beyond its
  /// integers are handled: gemm and gemmt in pieces, all other routines by the reference. m, n, k may be 0. In trmm B
  /// and C are separate, or the same.
  virtual void run(const Level3& call) const = 0;
  /// The LAPACK of the same library.
  virtual const LapackFunctions& lapack() const noexcept = 0;
  /// Address of another of its functions, by its Fortran or CBLAS name without prefix and suffix ("ddot"); nullptr:
  /// there is none.
  virtual void* fortran(const char* name) const = 0;
  virtual void* cblas(const char* name) const = 0;
};

}  // namespace tessera::kernels
