// Division that rounds up.
#pragma once

#include "core/scalar.hpp"

namespace tessera {

/// @pre a >= 0, b > 0
constexpr index_t ceil_div(index_t a, index_t b) { return (a + b - 1) / b; }

}  // namespace tessera
