// A Level-3 call as data (core/level3.hpp), made through the public C API.
#pragma once

#include "core/level3.hpp"
#include "tessera/tessera.h"

namespace tessera::tools {

/// Calls the function of the public API that computes `call`, which is column-major. trmm and trsm overwrite C; B is not used.
/// @pre the routine exists for the type: exists(call.routine, call.type)
tessera_status call_tessera(tessera_context context, const Level3& call);

/// The Hermitian routines exist for complex types only.
constexpr bool exists(Routine routine, ScalarType type) {
  const bool hermitian = routine == Routine::hemm || routine == Routine::herk || routine == Routine::her2k;
  return !hermitian || is_complex(type);
}

}  // namespace tessera::tools
