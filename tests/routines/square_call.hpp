// Calls of square operands without memory, for models.
#pragma once

#include "calls/level3.hpp"

namespace tessera::test {

/// alpha = 1.1, beta = 0.3 where there is one.
inline Level3 square_call(Routine routine, index_t n, ScalarType type = ScalarType::d) {
  Level3 call;
  call.routine = routine;
  call.type = type;
  call.m = call.n = n;
  if (call.has_k()) call.k = n;
  call.alpha = 1.1;
  call.beta = call.is_triangular() ? 0 : 0.3;
  return call;
}

}  // namespace tessera::test
