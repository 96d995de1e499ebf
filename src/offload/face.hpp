// A face: the symbols of one spelling and one integer width through which programs call us, and the CPU BLAS behind them.
#pragma once

#include <atomic>
#include <exception>
#include <memory>

#include "kernels/host/cpu_blas.hpp"

namespace tessera::offload {

/// The outcome of opening the CPU BLAS of a face; never changed.
struct CpuOutcome {
  std::shared_ptr<const kernels::CpuBlas> blas;
  std::exception_ptr failure;  ///< set if blas is not
};

/// Lives as long as the process if it belongs to a library, as long as its context otherwise. A constant initialiser makes one:
/// no constructor runs when a library is loaded.
struct Face {
  /// Which CPU BLAS answers what does not run on devices; next_gemm is found by next_definition.
  kernels::CpuBlasSearch search;
  /// Finds the definition of a symbol behind the face's library. Must live in it: RTLD_NEXT is relative to the caller. May be null.
  void* (*next_definition)(const char* symbol) = nullptr;
  /// nullptr: not opened yet. Threads that come first at the same time each open it, and one of the outcomes is kept. A
  /// lock could deadlock: its holder waits for the loader's lock, while a thread in the loader, whose library's
  /// constructor multiplies matrices, waits for ours. The release in Context::cpu_blas pairs with the acquire loads.
  std::atomic<const CpuOutcome*> cpu = nullptr;
};

}  // namespace tessera::offload
