// The symbols of LAPACK that we do not compute, where we stand in for the system's LAPACK: each is a jump to the LAPACK behind
// (blas_api/blas/forwarding.hpp).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "blas_api/blas/forwarding.hpp"
#include "blas_api/lapack/system_lapack.hpp"
#include "core/environment.hpp"

namespace {

#define TESSERA_FORWARD_FORTRAN(name) #name "_",
constexpr const char* forwarded[] = {
#include "blas_api/lapack/handed_on.def"
};
#undef TESSERA_FORWARD_FORTRAN

}  // namespace

/// Does not return if the LAPACK behind has no such function: the program would have failed to start with it.
extern "C" void* tessera_address_of_forwarded(std::size_t number) noexcept {
  const tessera::ErrnoKept stays;
  const char* const symbol = forwarded[number];
  void* const address = tessera::lapack::system_lapack_function(symbol);
  if (address == nullptr) {
    char line[512];
    const int length = std::snprintf(line, sizeof(line), "tessera: the LAPACK behind (%s) has no %s; aborting\n",
                                     tessera::lapack::system_lapack_name().c_str(), symbol);
    static_cast<void>(!write(STDERR_FILENO, line, static_cast<std::size_t>(length)));
    std::abort();
  }
  return address;
}

#define TESSERA_FORWARD_FORTRAN(name) TESSERA_FORWARD(#name "_")
// NOLINTNEXTLINE(hicpp-no-assembler)
asm(TESSERA_BINDER
#include "blas_api/lapack/handed_on.def"
);
