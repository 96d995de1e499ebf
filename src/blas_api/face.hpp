// A face: the symbols of one spelling and one integer width through which programs call us, and the CPU BLAS behind them.
#pragma once

#include <atomic>

#include "kernels/host/cpu_blas.hpp"

namespace tessera::api {

/// Lives as long as the process if it belongs to a library, as long as its context otherwise. A constant initialiser makes one:
/// no constructor runs when a library is loaded.
struct Face {
  /// Which CPU BLAS answers what does not run on devices. The context fills in next_gemm when it opens that BLAS.
  kernels::CpuBlasSearch search;
  /// Finds the definition of a symbol behind the face's library. Must live in it: RTLD_NEXT is relative to the caller. May be null.
  void* (*next_definition)(const char* symbol) = nullptr;
  /// Once it is open, for calls that must not pay for a lock. The context's release store pairs with acquire loads.
  std::atomic<const kernels::CpuBlas*> cpu = nullptr;
};

}  // namespace tessera::api
