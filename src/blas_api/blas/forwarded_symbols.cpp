// The symbols of BLAS that we do not compute: each is a jump to the same function of the CPU BLAS behind the plain
// face (forwarding.hpp).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "blas_api/blas/faces.hpp"
#include "blas_api/blas/forwarding.hpp"
#include "core/environment.hpp"
#include "offload/bridge.hpp"

namespace {

struct Forwarded {
  const char* name;  ///< without prefix and suffix
  bool is_cblas;
};

#define TESSERA_FORWARD_FORTRAN(name) {#name, false},
#define TESSERA_FORWARD_CBLAS(name) {#name, true},
constexpr Forwarded forwarded[] = {
#include "blas_api/blas/forwarded.def"
#if TESSERA_ERROR_HANDLERS
#include "blas_api/blas/error_handlers.def"
#endif
};
#undef TESSERA_FORWARD_FORTRAN
#undef TESSERA_FORWARD_CBLAS

}  // namespace

/// Does not return if the CPU BLAS has no such function: the program would have failed to start with that BLAS.
extern "C" void* tessera_address_of_forwarded(std::size_t number) noexcept {
  const tessera::ErrnoKept stays;
  const Forwarded& symbol = forwarded[number];
  const tessera::kernels::CpuBlas* const blas = tessera_private_cpu_blas(tessera::blas::plain_face);
  void* const address =
      blas == nullptr ? nullptr : (symbol.is_cblas ? blas->cblas(symbol.name) : blas->fortran(symbol.name));
  if (address == nullptr) {
    char line[512];
    const int length = std::snprintf(line, sizeof(line), "tessera: %s has no %s%s; aborting\n",
                                     blas == nullptr ? "the missing CPU BLAS" : blas->path().c_str(),
                                     symbol.is_cblas ? "cblas_" : "", symbol.name);
    static_cast<void>(!write(STDERR_FILENO, line, static_cast<std::size_t>(length)));
    std::abort();
  }
  return address;
}

#define TESSERA_FORWARD_FORTRAN(name) TESSERA_FORWARD(#name "_")
#define TESSERA_FORWARD_CBLAS(name) TESSERA_FORWARD("cblas_" #name)
// NOLINTNEXTLINE(hicpp-no-assembler)
asm(TESSERA_BINDER
#include "blas_api/blas/forwarded.def"
#if TESSERA_ERROR_HANDLERS
#include "blas_api/blas/error_handlers.def"
#endif
);

#if TESSERA_ERROR_HANDLERS
/// Variables that the reference's libblas.so.3 exports: the flags that its CBLAS sets for its error handlers.
extern "C" {
extern __attribute__((visibility("default"))) int RowMajorStrg;
extern __attribute__((visibility("default"))) int CBLAS_CallFromC;
int RowMajorStrg = 0;
int CBLAS_CallFromC = 0;
}
#endif
