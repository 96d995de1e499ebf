// Devices or CPU BLAS: the decision for one call. Pure functions, so that they can be tested without either; Context
// gathers what they need to know.
//
// Where the setting leaves it to the model, a call goes to the devices if it is estimated to end sooner there:
//   device_s = backlog + (overhead + panels + page-locking + the longest of packing, moving and computing
//                         + a quarter of the rest) * bias
//   cpu_s    = as the CPU has shown so far (cpu_speed.hpp) * (1 + other calls on the CPU + calls on
//              the devices)
// Here backlog is the sum of the estimates of all calls that are on the devices or wait for them. Panels are those of
// factorizations, which go from column to column, whatever the rate of products. The host's threads pack batches, both
// ways. Small products reach a part of the devices' rate. bias is the time that calls of this size took so far over the
// expected one (learnt_speed.hpp). A call's Work (calls/work.hpp) has what it reads and writes. Rates are those measured on this machine for the call's type, or else those that
// devices report. A rate that a device does not report (0) then counts as unlimited, as in an unmodelled host device.
// Memory is taken to be pageable; without CUDA nobody can know whether it is page-locked.
//
// A call on the CPU shares the processors with others there, and takes them from the threads that carry the operands of
// those on the devices. Each of these is delayed by about as much, which counts as the call's own time: otherwise
// threads that all look for their own gain get half of the calls per second that the devices alone would give.
//
// Starting devices takes start_up_s once, and nobody knows how many calls will follow. A call that waits for the start
// only if it still ends sooner than on the CPU costs nothing. Otherwise calls stay on the CPU until they have lost as
// much by it as a start beside them costs. So skis are rented until the rent has reached their price. Devices are started in the
// background then, and calls stay on the CPU meanwhile: none waits for a start that it did not ask for. In whatever order
// calls come, the time lost (gains forgone plus start-up) is at most three times the loss of the best choice in hindsight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "calls/work.hpp"
#include "core/offload_rules.hpp"
#include "core/rates_by_type.hpp"
#include "core/scalar.hpp"
#include "kernels/backend.hpp"
#include "offload/cpu_speed.hpp"
#include "runtime/performance_model.hpp"

namespace tessera::offload {

/// Calls of a smaller volume (a cube of about 400) are not weighed, whatever the devices can do: the
/// CPU needs less time than a device needs to begin. This test is all that a small call pays for.
inline constexpr index_t tiny_volume = index_t{1} << 26;

/// The rates of all devices together; 0: unknown.
struct Rates {
  int devices = 0;
  RatesByType flops_per_s;
  runtime::LinkRates links;          ///< as calls on pageable memory see them
  double page_lock_bytes_per_s = 0;  ///< of the slowest: one device locks for all
  double packing_bytes_per_s = 0;    ///< of all threads of the host that pack batches
  double start_up_s = 0;             ///< opening them all, side by side
  double call_overhead_s = device::DeviceProfile().call_overhead_s;
};

/// From rough figures: the arithmetic, and one direction of the links.
constexpr Rates rough_rates(int devices, RatesByType flops_per_s, double link_bytes_per_s) {
  return {.devices = devices, .flops_per_s = flops_per_s, .links = {link_bytes_per_s, link_bytes_per_s, 0}};
}

/// From what devices say of themselves.
Rates rates_of(std::span<const device::DeviceInfo> devices);

/// The GPU that is assumed before anybody has looked: an H200 (docs/performance). Most GPUs
/// are slower, so that devices are started rather too early than too late.
device::DeviceInfo likely_gpu();

enum class Reason : std::uint8_t {
  never,          ///< TESSERA_OFFLOAD says never
  no_devices,     ///< the configuration resolves to none
  no_gpu,         ///< no sign of one
  only_scales,    ///< alpha == 0 or k == 0
  tiny,           ///< below tiny_volume
  always,         ///< TESSERA_OFFLOAD says always
  small_by_rule,  ///< below the size in TESSERA_OFFLOAD
  large_by_rule,  ///< at least of that size
  device_wins,    ///< by the model
  with_whole,     ///< a part of a call that runs on devices
  cpu_wins,       ///< by the model
  start_up,       ///< devices would win if they were open
  trial,          ///< devices may win, but the CPU was hardly ever measured at this size, and trying it costs little
  forked,         ///< a child of the process that opened the devices
  ending,         ///< exit() has begun
  unavailable,    ///< the devices could not be opened
  out_of_memory,  ///< the job does not fit on the devices
  no_solver,      ///< no library of a GPU solves such problems
  unsuitable      ///< numbers that devices leave to LAPACK, or a problem that this version of a library does not solve
};
inline constexpr int reason_count = 19;

/// Where a call runs and why.
struct Decision {
  bool offload = false;
  Reason reason = Reason::never;
  // Estimates, where the devices were considered.
  double device_s = 0;  ///< with wait_s and bias
  double model_s = 0;   ///< of it, what the model gives for the call itself
  double wait_s = 0;    ///< for calls that are there already
  double cpu_s = 0;     ///< 0: not estimated
  double open_s = 0;    ///< device_s without what is left of the start
  // For Reason::start_up:
  double start_up_s = 0;     ///< seconds that starting the devices takes
  double forgone_s = 0;      ///< seconds that other calls have lost so far because devices were closed
  bool earns_start = false;  ///< that is as much as a start beside the calls costs: it is to begin
};

/// The decision that needs no devices: offload == false is final, true means that they must be looked at.
/// @param only_scales there is no product @param volume see Work
constexpr Decision decide_early(const OffloadRule& rule, bool only_scales, index_t volume) {
  if (rule.when == Offload::never) return {false, Reason::never};
  if (only_scales) return {false, Reason::only_scales};
  if (rule.when == Offload::always) return {true, Reason::always};
  if (rule.when == Offload::by_size) {
    const bool large = volume >= rule.least_volume;
    return {large, large ? Reason::large_by_rule : Reason::small_by_rule};
  }
  if (volume < tiny_volume) return {false, Reason::tiny};
  return {true, Reason::device_wins};
}
inline Decision decide_early(const OffloadRule& rule, const Work& work) {
  if (work.of == Work::Of::lapack && is(work.routine, cpu_only) && rule.when != Offload::never)
    return {false, Reason::no_solver};
  const Decision early = decide_early(rule, work.of == Work::Of::product && work.product.only_scales(), work.volume);
  if (early.reason == Reason::tiny && work.reading >= tiny_volume) return {true, Reason::device_wins};
  return early;
}

/// The facts by which a call is decided, as they are when it comes.
struct Conditions {
  Rates rates;              ///< with what starting the devices takes
  double until_open_s = 0;  ///< the rest of that time; 0: they are open
  bool is_opening = false;  ///< somebody has begun to open them
  double forgone_s = 0;     ///< gains forgone so far
  double backlog_s = 0;
  double bias = 1;  ///< see learnt_speed.hpp
  CpuEstimate cpu;
  int cpu_calls = 0;     ///< that the CPU BLAS is computing for others
  int device_calls = 0;  ///< that are on the devices or wait for them
};

/// Seconds that the model expects of the call on devices.
double seconds_on_devices(const Work& work, const Rates& rates);

/// The whole decision.
Decision decide(const OffloadRule& rule, const Work& work, const Conditions& now);

/// A few words, the same for all calls of that reason.
const char* words_of(Reason reason);

/// For the verbose line: the words, and the estimates if there are any.
std::string to_text(const Decision& decision);

/// For people: "auto: where ...; trsm: never".
std::string to_text(const OffloadRules& rules);

}  // namespace tessera::offload
