// Reports a bad argument of a BLAS call to the program's own xerbla_ or cblas_xerbla, as the BLAS behind us would.
// No preload library defines either: R, Octave and NumPy have their own in shared libraries, which it would shadow.
#pragma once

#include <string_view>

#include "offload/face.hpp"

namespace tessera::blas {

using offload::Face;

/// `letter` and `routine` name it: 'd', "gemm".
struct RoutineName {
  char letter;
  std::string_view routine;
};

/// A bad argument of a Fortran call: xerbla_ (as the face spells it), else a line on standard error.
void report_fortran(const Face& face, RoutineName name, int position);

/// A bad size or leading dimension of a CBLAS call. @param position in the column-major Fortran call that it becomes
void report_cblas(const Face& face, RoutineName name, bool row_major, int position);

/// A value that is no CBLAS enumerator. @param position among the CBLAS arguments, as the reference counts
/// @param fortran_position in the column-major Fortran call (0: the layout), for a BLAS that knows only xerbla_
/// @param what "layout", "TransA", ...
void report_cblas_enum(const Face& face, RoutineName name, bool row_major, int position, int fortran_position,
                       const char* what, int value);

/// The next definition of `symbol` behind this library.
void* next_definition(const char* symbol);

}  // namespace tessera::blas
