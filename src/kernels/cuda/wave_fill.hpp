// How well the thread blocks of a matrix product fill a GPU. Plain C++, so that it is tested without one.
#pragma once

#include "core/scalar.hpp"

namespace tessera::kernels::cuda {

/// The part of the multiprocessors that is busy on average if each computes one block of `side` x `side` elements of an m x n result at
/// a time. @pre m, n, side, multiprocessors >= 1
constexpr double wave_fill(index_t m, index_t n, index_t side, index_t multiprocessors) {
  const index_t blocks = ((m + side - 1) / side) * ((n + side - 1) / side);
  const index_t waves = (blocks + multiprocessors - 1) / multiprocessors;
  return static_cast<double>(blocks) / static_cast<double>(waves * multiprocessors);
}

}  // namespace tessera::kernels::cuda
