// The cost model of the offload decision; policy.hpp has its formulas.
#include "blas_api/policy.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdio>

#include "core/level3.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::api {
namespace {

constexpr double fixed_overhead_s = 200e-6;
/// One core with 256-bit multiply-add at about 2 GHz.
constexpr double core_flops_per_s = 30e9;

double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

}  // namespace

Rates rates_of(std::span<const device::DeviceInfo> devices, double cpu_flops_per_s) {
  Rates rates;
  rates.cpu_flops_per_s = cpu_flops_per_s;
  rates.devices = static_cast<int>(devices.size());
  const auto sum = [&](double device::DeviceInfo::*rate) {
    double total = 0;
    for (const device::DeviceInfo& device : devices) {
      if (device.*rate <= 0) return 0.0;
      total += device.*rate;
    }
    return total;
  };
  rates.device_flops_per_s = sum(&device::DeviceInfo::flops_per_s);
  rates.link_bytes_per_s = sum(&device::DeviceInfo::link_bytes_per_s);
  return rates;
}

double estimated_cpu_flops_per_s() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int processors = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return core_flops_per_s * std::max(processors, 1);
}

double traffic_bytes(const Level3& call) {
  const auto m = static_cast<double>(call.m);
  const auto n = static_cast<double>(call.n);
  const auto k = static_cast<double>(call.k);
  const auto triangle = [](double order) { return order * (order + 1) / 2; };
  double read = 0;
  double result = m * n;
  switch (call.routine) {
    case Routine::gemm:
      read = m * k + k * n;
      break;
    case Routine::symm:
    case Routine::hemm:
      read = triangle(call.side == Side::left ? m : n) + m * n;
      break;
    case Routine::syrk:
    case Routine::herk:
      read = n * k;
      result = triangle(n);
      break;
    case Routine::syr2k:
    case Routine::her2k:
      read = 2 * n * k;
      result = triangle(n);
      break;
    case Routine::trmm:
    case Routine::trsm:
      read = triangle(call.side == Side::left ? m : n);
      break;
  }
  const bool reads_result = call.is_triangular() || call.beta != AnyScalar(0);
  return (read + (reads_result ? 2 : 1) * result) * static_cast<double>(element_bytes(call.type));
}

Verdict decide(Offload offload, const Level3& call, const Rates& rates) {
  Verdict verdict = decide_early(offload, call);
  if (!verdict.offload) return verdict;
  if (rates.devices == 0) return {false, Reason::no_devices};
  if (offload == Offload::always) return verdict;

  const double bytes = traffic_bytes(call);
  const bool single = call.type == ScalarType::s || call.type == ScalarType::c;
  const double flops = flops_of(call) * (single ? 0.5 : 1);

  verdict.device_s = fixed_overhead_s + over(bytes, rates.link_bytes_per_s) + over(flops, rates.device_flops_per_s);
  verdict.cpu_s = over(flops, rates.cpu_flops_per_s);
  verdict.offload = verdict.device_s < verdict.cpu_s;
  verdict.reason = verdict.offload ? Reason::device_wins : Reason::cpu_wins;
  return verdict;
}

std::string to_text(const Verdict& verdict) {
  char text[96];
  switch (verdict.reason) {
    case Reason::never:
      return "TESSERA_OFFLOAD=never";
    case Reason::no_devices:
      return "no devices";
    case Reason::only_scales:
      return "C is only scaled";
    case Reason::tiny:
      return "too small for devices";
    case Reason::always:
      return "TESSERA_OFFLOAD=always";
    case Reason::forked:
      return "the devices belong to the parent process";
    case Reason::unavailable:
      return "the devices could not be opened";
    case Reason::out_of_memory:
      return "it does not fit in the devices' memory";
    case Reason::device_wins:
    case Reason::cpu_wins:
      std::snprintf(text, sizeof(text), "estimated %.2g s on devices, %.2g s on the CPU", verdict.device_s,
                    verdict.cpu_s);
      return text;
  }
  return "";
}

}  // namespace tessera::api
