// Small calls of Level 3: by their sizes alone they are the CPU's, so that nothing else is looked at. They go on to the function of
// the same name in the CPU BLAS, with the program's own arguments.
#pragma once

#include <algorithm>
#include <atomic>

#include "calls/arguments.hpp"
#include "offload/bridge.hpp"
#include "offload/face.hpp"

namespace tessera::blas {

/// The place to which the small calls of one symbol go. A constant initialiser makes one.
class SmallCalls {
 public:
  constexpr SmallCalls(bool is_cblas, int bits, const char* name) : is_cblas_(is_cblas), bits_(bits), name_(name) {}

  /// @param arguments as the program has passed them
  /// @return the function that is to be called now, nullptr if none is; tessera_private_leave_lapack() must follow
  template <Routine routine, Scalar T>
  void* enter(const offload::Face& face, const Arguments& arguments, const Operands& operands) {
    // CpuBlas composes gemmt of gemm where a library has none, or a wrong one.
    if (routine == Routine::gemmt) return nullptr;
    const index_t smallest =
        std::min({has_m(routine) ? arguments.m : 1, arguments.n, has_k(routine) ? arguments.k : 1});
    const index_t largest = std::max({arguments.m, arguments.n, arguments.k});
    constexpr index_t most = 100;
    if (smallest < 1 || largest > most) return nullptr;
    // OpenBLAS's kernels read A and B where they must not (kernels/host/cpu_blas.cpp).
    if (*static_cast<const Alpha<routine, T>*>(operands.alpha) == Alpha<routine, T>(0)) return nullptr;
    void* const function = function_of(face);
    return function != nullptr && tessera_private_enter_small(largest * largest * largest) ? function : nullptr;
  }

 private:
  static constexpr bool has_m(Routine routine) { return has(routine, Parameter::m); }
  static constexpr bool has_k(Routine routine) { return has(routine, Parameter::k); }

  void* function_of(const offload::Face& face) {
    void* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) [[unlikely]] {
      const offload::CpuOutcome* const cpu = face.cpu.load(std::memory_order_acquire);
      if (cpu == nullptr) return nullptr;
      if (cpu->blas && cpu->blas->integer_bits() == bits_)
        function = is_cblas_ ? cpu->blas->cblas(name_) : cpu->blas->fortran(name_);
      function_.store(function != nullptr ? function : this, std::memory_order_relaxed);
    }
    return function == this ? nullptr : function;
  }

  bool is_cblas_;
  int bits_;  ///< of the symbol's integers
  const char* name_;
  /// nullptr: nobody has looked yet; this: there is none. Relaxed: everyone who looks finds the same.
  std::atomic<void*> function_ = nullptr;
};

/// Held around the call of what SmallCalls::enter() has returned: an error handler of the program may throw through it.
struct LeavesSmall {
  LeavesSmall() = default;
  ~LeavesSmall() { tessera_private_leave_lapack(); }
  LeavesSmall(const LeavesSmall&) = delete;
  LeavesSmall& operator=(const LeavesSmall&) = delete;
};

}  // namespace tessera::blas
