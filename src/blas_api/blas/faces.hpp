// The face of the plain names (dgemm_, dgemm, cblas_dgemm), which a library has in one integer width; the other faces are private to
// unambiguous_symbols.cpp.
#pragma once

#include "offload/face.hpp"

namespace tessera::blas {

extern offload::Face plain_face;

}  // namespace tessera::blas
