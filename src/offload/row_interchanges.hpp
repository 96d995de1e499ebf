// The interchanges of rows of right-hand sides by the pivots of an LU factorization, in host memory.
#pragma once

#include "calls/lapack_call.hpp"

namespace tessera::offload {

enum class PivotOrder : std::uint8_t { first_to_last, last_to_first };

/// Of all n rows of B by call.ipiv. Columns are dealt to so many threads, the caller's included, where they are worth it.
/// Thread-safe.
void interchange_rows(const LapackCall& call, PivotOrder order, int processors);

}  // namespace tessera::offload
