// The products for which dgemm.cu is faster than cuBLAS. Plain C++, so that it is tested without a GPU.
#pragma once

#include <cstdint>

#include "calls/level3.hpp"
#include "device/device_profile.hpp"

namespace tessera::kernels::plan {

inline constexpr int dgemm_block_side =
    128;  ///< rows and columns of C that a thread block computes: compiled into the kernel

/// The part of the multiprocessors' time that is spent on elements of an m x n result, if each computes one block of
/// `side` x `side` elements at a time. @pre m, n, side, multiprocessors >= 1
constexpr double wave_fill(index_t m, index_t n, index_t side, index_t multiprocessors) {
  const index_t blocks = ((m + side - 1) / side) * ((n + side - 1) / side);
  const index_t waves = (blocks + multiprocessors - 1) / multiprocessors;
  return static_cast<double>(m) * static_cast<double>(n) / static_cast<double>(side * side * waves * multiprocessors);
}

/// Whether a call is a product for dgemm.cu: in double precision, of a suitable size, and with A and B readable for the
/// copy engine (columns at multiples of 16 bytes). A block takes a whole multiprocessor. Short products should share
/// one, because other work waits for them (triangular solves).
inline bool is_for_dgemm_kernel(const Level3& call, index_t multiprocessors,
                                const device::ProductCrossover& crossover) {
  // The kernel counts elements and blocks in int. The copy engine takes columns that lie less than 2^40 bytes apart.
  constexpr index_t most_elements = index_t{1} << 30;
  constexpr index_t most_blocks = (index_t{1} << 31) - 1;
  constexpr index_t largest_ld = index_t{1} << 36;
  const auto blocks = [](index_t elements) { return (elements + dgemm_block_side - 1) / dgemm_block_side; };
  const auto is_readable = [](const void* matrix, index_t ld) {
    return (reinterpret_cast<std::uintptr_t>(matrix) | static_cast<std::uintptr_t>(ld) * sizeof(double)) % 16 == 0 &&
           ld <= largest_ld;
  };
  return call.routine == Routine::gemm && call.type == ScalarType::d && call.alpha != AnyScalar(0) && call.m >= 1 &&
         call.n >= 1 && call.m <= most_elements && call.n <= most_elements && call.k >= crossover.least_sum &&
         call.k <= most_elements && blocks(call.m) * blocks(call.n) <= most_blocks && is_readable(call.A, call.lda) &&
         is_readable(call.B, call.ldb) &&
         wave_fill(call.m, call.n, dgemm_block_side, multiprocessors) >= crossover.least_fill;
}

}  // namespace tessera::kernels::plan
