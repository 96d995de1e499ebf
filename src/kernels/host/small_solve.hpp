// Solves with small triangles, by one thread and without a BLAS. OpenBLAS takes a buffer under a lock in every call. If
// each small problem needs many calls, threads with such problems would wait for each other.
#pragma once

#include "calls/level3.hpp"

namespace tessera::kernels {

inline constexpr index_t most_order_of_small_solve = 32;

/// A trsm with alpha 1. @pre the triangle is of an order up to most_order_of_small_solve. Thread-safe.
void solve_small(const Level3& trsm);

}  // namespace tessera::kernels
