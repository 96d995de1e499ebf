// The work of a call: its operations and the bytes that it moves. Calls of all families are planned, decided, remembered
// and reported by it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "calls/level3.hpp"

namespace tessera {

/// m * n * k, or the largest index_t if that is less. @pre m, n, k >= 0
constexpr index_t volume_of(index_t m, index_t n, index_t k) {
  index_t product = 0;
  if (!__builtin_mul_overflow(m, n, &product) && !__builtin_mul_overflow(product, k, &product)) return product;
  return k == 0 ? 0 : std::numeric_limits<index_t>::max();
}

/// Length of the sums that make an element of the result: m times n times this is the volume of a call, a rough measure
/// of its work.
constexpr index_t inner_size(const Level3& call) {
  if (call.has_k()) return call.k;
  return call.side == Side::left ? call.m : call.n;
}
constexpr index_t volume_of(const Level3& call) { return volume_of(call.m, call.n, inner_size(call)); }

struct Work {
  enum class Of : std::uint8_t {
    product,  ///< one call of Level 3
    lapack,   ///< one call of LAPACK
    batch     ///< problems of either, in host memory
  };

  double flops = 0;
  double up = 0;    ///< bytes that must cross the host links to the devices
  double down = 0;  ///< and back
  Of of = Of::product;
  Routine routine = Routine::gemm;
  ScalarType type = ScalarType::d;
  /// The sum over the problems. LAPACK: the volume of products of as much arithmetic, half of a real call's operations.
  index_t volume = 0;
  index_t problems = 1;
  index_t forms = 0;        ///< of a batch
  double orders = 0;        ///< batches of LAPACK: the sum of n
  Level3 product = {};      ///< the call itself, if it is one of Level 3
  double page_locked = 0;   ///< bytes
  double beside_s = 0;      ///< seconds of devices beside arithmetic and copies
  double part_of_rate = 1;  ///< the part of the rate of products that the arithmetic reaches
  double part_of_cpu = 1;   ///< likewise on the CPU, before a call has shown it
  /// Multiply-adds that take the CPU as long as reading the operands once. Solves of few right-hand sides have fewer.
  index_t reading = 0;

  index_t mean_volume() const { return problems > 0 ? volume / problems : 0; }
  double mean_order() const { return problems > 0 ? orders / static_cast<double>(problems) : 0; }
};

/// Reads A and B, and C unless beta is zero; writes C. Of symmetric and triangular matrices one triangle counts.
Work work_of(const Level3& call);

}  // namespace tessera
