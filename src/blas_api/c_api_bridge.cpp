// The shared context behind the drop-in BLAS symbols; bridge.hpp says what holds.
#include <cstdlib>
#include <exception>
#include <string>

#include "blas_api/bridge.hpp"
#include "blas_api/context.hpp"
#include "core/log.hpp"

extern "C" void tessera_private_run(const tessera::Level3& call, void* (*find_next_gemm)()) noexcept {
  using tessera::api::Context;
  try {
    // Leaked: at exit, other threads and other libraries' destructors may still call BLAS, and a driver may be gone already.
    static Context* const context = new Context(tessera::Config::from_environment(), find_next_gemm());
    context->run(call, tessera::api::Fallback::cpu_blas);
  } catch (const std::exception& error) {
    tessera::log_line(std::string(error.what()) + ": the result is partly written and cannot be saved; aborting");
    std::abort();
  }
}
