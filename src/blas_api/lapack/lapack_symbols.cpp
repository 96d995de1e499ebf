// The symbols of libtessera_lapack.so, in every spelling: plain ones, whose integers are as wide as those of the LAPACK
// behind them, and those that say how wide theirs are. Those of a library that stands in for the system's LAPACK: plain
// ones, of one width. Constructors do nothing; nothing is looked up before the first
// call.
#include <complex>
#include <cstdint>

#include "blas_api/blas/error_exit.hpp"
#include "blas_api/lapack/lapack_entry.hpp"
#include "blas_api/lapack/system_lapack.hpp"

namespace {

using tessera::lapack::LapackFace;

constexpr tessera::kernels::CpuBlasSearch behind(const tessera::kernels::SymbolScheme& scheme, int bits) {
  return {.scheme = scheme, .integer_bits = bits, .among_loaded = true};
}
#if TESSERA_STANDS_IN
void* of_system_lapack(const char* symbol, void* /*caller*/) { return tessera::lapack::system_lapack_function(symbol); }
constinit LapackFace face_plain = {.blas = {.search = behind(tessera::kernels::plain_symbols, TESSERA_INTEGER_BITS),
                                            .next_definition = tessera::blas::next_definition},
                                   .integer_bits = TESSERA_INTEGER_BITS,
                                   .find = of_system_lapack};
#else
constinit LapackFace face_plain = {
    .blas = {.search = behind(tessera::kernels::plain_symbols, 32), .next_definition = tessera::blas::next_definition}};
constinit LapackFace face_64_ = {
    .blas = {.search = behind(tessera::kernels::symbols_64_, 64), .next_definition = tessera::blas::next_definition},
    .integer_bits = 64};
constinit LapackFace face_scipy = {
    .blas = {.search = behind(tessera::kernels::scipy_symbols, 32), .next_definition = tessera::blas::next_definition},
    .integer_bits = 32};
constinit LapackFace face_scipy_64_ = {.blas = {.search = behind(tessera::kernels::scipy_symbols_64_, 64),
                                                .next_definition = tessera::blas::next_definition},
                                       .integer_bits = 64};
#endif

}  // namespace

#define TESSERA_LAPACK_FACE face_plain
#define TESSERA_FORTRAN(name) name##_
#include "blas_api/lapack/lapack_symbols.inc"

#if !TESSERA_STANDS_IN
#define TESSERA_LAPACK_FACE face_64_
#define TESSERA_FORTRAN(name) name##_64_
#include "blas_api/lapack/lapack_symbols.inc"

#define TESSERA_LAPACK_FACE face_scipy
#define TESSERA_FORTRAN(name) scipy_##name##_
#include "blas_api/lapack/lapack_symbols.inc"

#define TESSERA_LAPACK_FACE face_scipy_64_
#define TESSERA_FORTRAN(name) scipy_##name##_64_
#include "blas_api/lapack/lapack_symbols.inc"

// Fortran compilers that append nothing, and programs written for them: dgetrf is dgetrf_. The types do not matter to an
// alias.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
#define TESSERA_CALL(routine, name, letter, T, arguments, letters) \
  extern "C" __attribute__((visibility("default"), alias(#letter #name "_"))) void letter##name();
#include "calls/lapack_symbols.def"
#undef TESSERA_CALL
#endif

/// Tells the search for a CPU BLAS that this library is none.
extern "C" {
extern __attribute__((visibility("default"))) const int tessera_blas_marker;
const int tessera_blas_marker = 1;
}
