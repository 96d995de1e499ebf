// The shared context behind the drop-in BLAS symbols; bridge.hpp says what holds.
#include <cstdlib>
#include <exception>
#include <string>

#include "blas_api/bridge.hpp"
#include "blas_api/context.hpp"
#include "core/log.hpp"

namespace {

using tessera::api::Context;

/// Leaked: at exit, other threads and other libraries' destructors may still call BLAS, and a driver may be gone already.
Context& shared_context() {
  static Context* const context = new Context(tessera::Config::from_environment());
  return *context;
}

}  // namespace

extern "C" void tessera_private_run(const tessera::Level3& call, tessera::api::Face& face) noexcept {
  try {
    shared_context().run(call, tessera::api::Fallback::cpu_blas, &face);
  } catch (const std::exception& error) {
    tessera::log_line(std::string(error.what()) + ": the result is partly written and cannot be saved; aborting");
    std::abort();
  }
}

extern "C" const tessera::kernels::CpuBlas* tessera_private_cpu_blas(tessera::api::Face& face) noexcept {
  try {
    return shared_context().cpu_blas(&face).get();
  } catch (const std::exception& error) {
    tessera::log_line(error.what());
    return nullptr;
  }
}
