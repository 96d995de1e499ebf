// A Level-3 call as data (calls/level3.hpp), made through the public C API.
#pragma once

#include "calls/level3.hpp"
#include "tessera/tessera.h"

namespace tessera::tools {

/// Calls the function of the public API that computes `call`, which is column-major. trmm and trsm overwrite C; B is
/// not used.
/// @pre the routine exists for the type: exists(call.routine, call.type)
tessera_status call_tessera(tessera_context context, const Level3& call);

}  // namespace tessera::tools
