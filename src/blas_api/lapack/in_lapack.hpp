// Around calls of the LAPACK behind, as long as they compute.
#pragma once

#include <atomic>

#include "core/unwinder.hpp"
#include "offload/bridge.hpp"

namespace tessera::lapack {

/// While it lives the thread is inside the LAPACK behind, so that forks and the end of the process wait for it. An error
/// handler of the program may throw through it.
class InLapack {
 public:
  explicit InLapack(offload::Face& face) {
    prepare();
    tessera_private_open_cpu_blas(face);
    tessera_private_enter_lapack();
  }
  /// @pre tessera_private_enter_lapack() or tessera_private_enter_small() has let the thread in
  InLapack() { prepare(); }
  ~InLapack() { tessera_private_leave_lapack(); }
  InLapack(const InLapack&) = delete;
  InLapack& operator=(const InLapack&) = delete;

 private:
  static void prepare() {
    // Relaxed: at worst it is done twice.
    static constinit std::atomic<bool> is_started = false;
    if (!is_started.load(std::memory_order_relaxed)) [[unlikely]] {
      start_unwinder();
      is_started.store(true, std::memory_order_relaxed);
    }
  }
};

}  // namespace tessera::lapack
