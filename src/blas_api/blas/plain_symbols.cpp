// The Level-3 symbols under their plain names, with integers of TESSERA_INTEGER_BITS (32: LP64; 64: ILP64, as MATLAB
// wants them). Constructors do nothing; nothing is loaded before the first call.
#include "blas_api/blas/batch_entry.hpp"
#include "blas_api/blas/faces.hpp"
#include "blas_api/blas/level3_entry.hpp"

namespace tessera::blas {

// A library that is the system's BLAS hands everything else on, so the BLAS behind it must take integers of the same
// width, and its error handler must be the program's (no deep binding).
constinit Face plain_face = {.search = {.integer_bits = TESSERA_INTEGER_BITS,
                                        .all_levels = TESSERA_ALL_LEVELS != 0,
                                        .among_loaded = true,
                                        .deep_bind = TESSERA_ALL_LEVELS == 0},
                             .next_definition = next_definition};

}  // namespace tessera::blas

#define TESSERA_FACE tessera::blas::plain_face
#define TESSERA_ERRORS_BEHIND false
#if TESSERA_INTEGER_BITS == 64
#define TESSERA_INTEGER std::int64_t
#else
#define TESSERA_INTEGER std::int32_t
#endif
#define TESSERA_FORTRAN(name) name##_
#define TESSERA_CBLAS(name) cblas_##name
#include "blas_api/blas/level3_symbols.inc"

// Fortran compilers that append nothing, and programs written for them: dgemm is dgemm_. The types do not matter to an
// alias.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
#define TESSERA_ALIAS(routine, letter) \
  extern "C" __attribute__((visibility("default"), alias(#letter #routine "_"))) void letter##routine();
#define TESSERA_ROUTINE(routine, list, letter, T) TESSERA_ALIAS(routine, letter)
#define TESSERA_SYNONYM(spelling, routine, letter, T) TESSERA_ALIAS(spelling, letter)
#define TESSERA_BATCH(routine, letter, T) \
  TESSERA_ALIAS(routine##_batch, letter) TESSERA_ALIAS(routine##_batch_strided, letter)
#include "calls/routines.def"

/// Tells the search for a CPU BLAS that this library is none.
extern "C" {
extern __attribute__((visibility("default"))) const int tessera_blas_marker;
const int tessera_blas_marker = 1;
}
