// The Level-3 symbols under names that say how wide their integers are, so that every drop-in library can have them beside the plain
// ones: OpenBLAS's suffix 64_ (Julia, Fedora, older NumPy wheels), the suffix _64 of reference LAPACK's extended API and MKL, and the
// prefix scipy_ of the OpenBLAS inside NumPy's and SciPy's wheels.
#include "blas_api/blas/batch_entry.hpp"
#include "blas_api/blas/level3_entry.hpp"

namespace {

using tessera::blas::next_definition;
using tessera::offload::Face;

constexpr tessera::kernels::CpuBlasSearch behind(const tessera::kernels::SymbolScheme& scheme, int bits) {
  return {.scheme = scheme, .integer_bits = bits, .among_loaded = true};
}

constinit Face face_64_ = {.search = behind(tessera::kernels::symbols_64_, 64), .next_definition = next_definition};
constinit Face face_64 = {.search = behind(tessera::kernels::symbols_64, 64), .next_definition = next_definition};
constinit Face face_scipy = {.search = behind(tessera::kernels::scipy_symbols, 32), .next_definition = next_definition};
constinit Face face_scipy_64_ = {.search = behind(tessera::kernels::scipy_symbols_64_, 64),
                                 .next_definition = next_definition};

}  // namespace

#define TESSERA_FACE face_64_
#define TESSERA_ERRORS_BEHIND false
#define TESSERA_INTEGER std::int64_t
#define TESSERA_FORTRAN(name) name##_64_
#define TESSERA_CBLAS(name) cblas_##name##64_
#include "blas_api/blas/level3_symbols.inc"

#define TESSERA_FACE face_64
#define TESSERA_ERRORS_BEHIND false
#define TESSERA_INTEGER std::int64_t
#define TESSERA_FORTRAN(name) name##_64
#define TESSERA_CBLAS(name) cblas_##name##_64
#include "blas_api/blas/level3_symbols.inc"

#define TESSERA_FACE face_scipy
#define TESSERA_ERRORS_BEHIND true
#define TESSERA_INTEGER std::int32_t
#define TESSERA_FORTRAN(name) scipy_##name##_
#define TESSERA_CBLAS(name) scipy_cblas_##name
#include "blas_api/blas/level3_symbols.inc"

#define TESSERA_FACE face_scipy_64_
#define TESSERA_ERRORS_BEHIND true
#define TESSERA_INTEGER std::int64_t
#define TESSERA_FORTRAN(name) scipy_##name##_64_
#define TESSERA_CBLAS(name) scipy_cblas_##name##64_
#include "blas_api/blas/level3_symbols.inc"
