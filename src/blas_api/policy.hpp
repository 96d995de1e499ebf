// Devices or CPU BLAS: the decision for one call. Pure functions, so that they can be tested without either.
//
// Model of `automatic` (rough on purpose; every term is documented in docs/ or visible in the verbose line):
//   device_s = 200 us + bytes / (sum of host links) + flops / (sum of device rates)
//   cpu_s    = flops / (rate of the CPU)
// with bytes = what the routine reads of A, B and C (of symmetric and triangular matrices one triangle) and what it
// writes of C; rates are those of double precision, twice as high in single. Copies and kernels are added up although they
// overlap: page-locking and the first tiles are not modelled, and the sum errs towards the CPU. A device that does not know a
// rate (0) counts as infinitely fast, as an unmodelled host device does.
#pragma once

#include <span>
#include <string>

#include "core/config.hpp"
#include "core/level3.hpp"
#include "core/scalar.hpp"
#include "kernels/backend.hpp"

namespace tessera::api {

/// Calls of a smaller volume (a cube of about 400) are not worth looking at a device for, whatever it can do: the
/// CPU needs less time than a device needs to begin. This test is all that a small call pays for.
inline constexpr index_t tiny_volume = index_t{1} << 26;

/// m * n * k < volume, without overflow. @pre m, n, k >= 0
constexpr bool below_volume(index_t m, index_t n, index_t k, index_t volume) {
  index_t product = 0;
  if (__builtin_mul_overflow(m, n, &product)) return k == 0;
  return !__builtin_mul_overflow(product, k, &product) && product < volume;
}

/// Length of the sums that make an element of the result: m times n times this is the volume of a call, a rough measure of its
/// work.
constexpr index_t inner_size(const Level3& call) {
  if (call.has_k()) return call.k;
  return call.side == Side::left ? call.m : call.n;
}

/// Bytes that the call reads and writes. beta == 0 does not read C.
double traffic_bytes(const Level3& call);

/// Rates of the machine in double precision; 0: unknown.
struct Rates {
  int devices = 0;
  double device_flops_per_s = 0;  ///< all together
  double link_bytes_per_s = 0;    ///< all together, one direction
  double cpu_flops_per_s = 0;
};

Rates rates_of(std::span<const device::DeviceInfo> devices, double cpu_flops_per_s);

/// A rough figure: processors that this process may use, times what one core of the last decade does.
double estimated_cpu_flops_per_s();

enum class Reason : std::uint8_t {
  never,         ///< TESSERA_OFFLOAD=never
  no_devices,    ///< the configuration resolves to none
  only_scales,   ///< alpha == 0 or k == 0
  tiny,          ///< below tiny_volume
  always,        ///< TESSERA_OFFLOAD=always
  device_wins,   ///< by the model
  cpu_wins,      ///< by the model
  forked,        ///< a child of the process that opened the devices
  unavailable,   ///< the devices could not be opened
  out_of_memory  ///< the job does not fit on the devices
};

/// Where a call runs and why.
struct Verdict {
  bool offload = false;
  Reason reason = Reason::never;
  double device_s = 0;  ///< estimates, for device_wins and cpu_wins
  double cpu_s = 0;
};

/// What can be said without knowing the devices: offload == false is final, true means that they must be looked at.
/// @pre m, n, k >= 0
constexpr Verdict decide_early(Offload offload, const Level3& call) {
  if (offload == Offload::never) return {false, Reason::never};
  if (call.only_scales()) return {false, Reason::only_scales};
  if (offload == Offload::always) return {true, Reason::always};
  if (below_volume(call.m, call.n, inner_size(call), tiny_volume)) return {false, Reason::tiny};
  return {true, Reason::device_wins};
}

/// The whole decision. @pre m, n, k >= 0
Verdict decide(Offload offload, const Level3& call, const Rates& rates);

/// For the verbose line.
std::string to_text(const Verdict& verdict);

}  // namespace tessera::api
