// The cost model of the offload decision; policy.hpp has its formulas.
#include "offload/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "calls/level3.hpp"
#include "core/plugin_backends.hpp"
#include "kernels/tile_ops.hpp"
#include "offload/rule_table.hpp"

namespace tessera::offload {
namespace {

/// A trial on the CPU may be expected to take at most so many times what the devices would need. A cell of CpuSpeed is
/// tried twice for calls on devices worth eight of it (LearntSpeed), so in the long run trials cost a fifth at most.
constexpr double trial_factor = 4;

/// A start in the background delays the calls beside it by so much of its own time (docs/adr/0013-starting-devices.md).
constexpr double price_beside_calls = 0.5;

/// Seconds of submitting a chunk of a batch; a form has at least one chunk.
constexpr double chunk_s = 30e-6;
constexpr double not_overlapped = 0.25;

constexpr std::pair<Reason, const char*> reason_words[] = {
    {Reason::never, "TESSERA_OFFLOAD=never"},
    {Reason::no_devices, "no devices"},
    {Reason::no_gpu, "there is no sign of a GPU"},
    {Reason::only_scales, "C is only scaled"},
    {Reason::tiny, "too small for devices"},
    {Reason::always, "TESSERA_OFFLOAD=always"},
    {Reason::small_by_rule, "below the size in TESSERA_OFFLOAD"},
    {Reason::large_by_rule, "from the size in TESSERA_OFFLOAD on"},
    {Reason::device_wins, "sooner on devices"},
    {Reason::with_whole, "with the call that it is a part of"},
    {Reason::cpu_wins, "sooner on the CPU"},
    {Reason::start_up, "starting the devices is not worth it yet"},
    {Reason::trial, "to measure the CPU"},
    {Reason::forked, "the devices belong to the parent process"},
    {Reason::ending, "the process is ending"},
    {Reason::unavailable, "the devices could not be opened"},
    {Reason::no_solver, "no GPU's library solves it"},
    {Reason::unsuitable, "the devices leave such a problem to LAPACK"},
    {Reason::out_of_memory, "it does not fit in the devices' memory"},
};
static_assert(std::size(reason_words) == reason_count);

std::string text_of(const OffloadRule& rule) {
  switch (rule.when) {
    case Offload::automatic:
      return "auto (devices where the call is estimated to end sooner there)";
    case Offload::always:
      return "always devices";
    case Offload::never:
      return "never devices";
    case Offload::by_size:
      break;
  }
  return fmt::format("devices from m*n*k = {:.0f}^3 on", std::cbrt(static_cast<double>(rule.least_volume)));
}

}  // namespace

Rates rates_of(std::span<const device::DeviceInfo> devices) {
  const auto sum = [&](const auto& rate_of) {
    double total = 0;
    for (const device::DeviceInfo& device : devices) {
      if (rate_of(device) <= 0) return 0.0;
      total += rate_of(device);
    }
    return total;
  };
  RatesByType flops;
  for (const ScalarType type : scalar_types)
    flops[type] = sum([type](const device::DeviceInfo& device) { return device.flops_per_s[type]; });
  Rates rates = rough_rates(static_cast<int>(devices.size()), flops,
                            sum([](const device::DeviceInfo& device) { return device.link_bytes_per_s; }));
  double further_s = 0;
  if (!devices.empty()) rates.call_overhead_s = 0;
  for (const device::DeviceInfo& device : devices) {
    const device::DeviceProfile& profile = device.profile;
    const double lock = profile.page_lock_bytes_per_s;
    if (lock > 0 && (rates.page_lock_bytes_per_s == 0 || lock < rates.page_lock_bytes_per_s))
      rates.page_lock_bytes_per_s = lock;
    rates.start_up_s = std::max(rates.start_up_s, profile.start_up_s);
    further_s = std::max(further_s, profile.further_start_up_s);
    rates.call_overhead_s = std::max(rates.call_overhead_s, profile.call_overhead_s);
  }
  rates.start_up_s += further_s * std::max(rates.devices - 1, 0);
  return rates;
}

device::DeviceInfo likely_gpu() {
  device::DeviceInfo info;
  info.backend = plugin_backends[0].name;
  info.profile = device::gpu_profile(9, 0);
  info.flops_per_s = device::matrix_rates(info.profile, 132, 1.98e9);
  info.link_bytes_per_s = 48e9;
  info.profile.page_lock_bytes_per_s = 0;  // rather too early
  return info;
}

double seconds_on_devices(const Work& work, const Rates& rates) {
  using runtime::seconds_at;
  const double flops_per_s = rates.flops_per_s[work.type];
  const double pack_s = work.of == Work::Of::batch ? seconds_at(work.up + work.down, rates.packing_bytes_per_s) : 0;
  const double move_s = runtime::move_seconds(work, rates.links);
  const double compute_s = seconds_at(work.flops, work.part_of_rate * flops_per_s) +
                           chunk_s * static_cast<double>(work.forms) / std::max(rates.devices, 1);
  const double longest_s = std::max({pack_s, move_s, compute_s});
  // Devices whose rates nobody knows have no known panels either.
  const double beside_s = flops_per_s > 0 ? work.beside_s : 0;
  return rates.call_overhead_s + beside_s + seconds_at(work.page_locked, rates.page_lock_bytes_per_s) + longest_s +
         not_overlapped * (pack_s + move_s + compute_s - longest_s);
}

Decision decide(const OffloadRule& rule, const Work& work, const Conditions& now) {
  Decision decision = decide_early(rule, work);
  if (!decision.offload) return decision;
  if (now.rates.devices == 0) return {false, Reason::no_devices};
  decision.wait_s = now.backlog_s + now.until_open_s;
  decision.model_s = seconds_on_devices(work, now.rates);
  decision.device_s = decision.wait_s + now.bias * decision.model_s;
  if (rule.when != Offload::automatic) return decision;

  const double load = 1 + now.cpu_calls + now.device_calls;
  decision.cpu_s = load * now.cpu.expected_s;
  decision.open_s = decision.device_s - now.until_open_s;
  const auto stay = [&](Reason reason) {
    decision.offload = false;
    decision.reason = reason;
    return decision;
  };
  // A call of LAPACK that pays for the start is long: what is learnt by it would cost too much.
  const bool may_try = work.of != Work::Of::lapack || now.until_open_s <= 0;
  if (decision.cpu_s <= decision.device_s) {
    if (now.until_open_s <= 0 || decision.cpu_s <= decision.open_s) return stay(Reason::cpu_wins);
    decision.start_up_s = now.rates.start_up_s;
    decision.forgone_s = now.forgone_s;
    // At the whole price nobody has managed to begin beside the calls. So this one begins, and waits.
    if (now.is_opening || now.forgone_s < now.rates.start_up_s) {
      decision.earns_start = !now.is_opening && now.forgone_s >= price_beside_calls * now.rates.start_up_s;
      return stay(Reason::start_up);
    }
  } else if (may_try && load * now.cpu.least_s < decision.device_s &&
             load * now.cpu.most_s <= trial_factor * decision.device_s) {
    return stay(Reason::trial);
  }
  decision.reason = Reason::device_wins;
  return decision;
}

const char* words_of(Reason reason) {
  return std::find_if(std::begin(reason_words), std::end(reason_words),
                      [reason](const auto& entry) { return entry.first == reason; })
      ->second;
}

std::string to_text(const Decision& decision) {
  std::string text = words_of(decision.reason);
  if (decision.cpu_s > 0) {
    text += fmt::format(": estimated {:.2g} s on devices", decision.device_s);
    if (decision.wait_s > 0) text += fmt::format(" ({:.2g} s of it waiting)", decision.wait_s);
    text += fmt::format(", {:.2g} s on the CPU", decision.cpu_s);
  }
  if (decision.reason == Reason::start_up) {
    text +=
        fmt::format("; starting takes {:.2g} s, {:.2g} s were forgone before", decision.start_up_s, decision.forgone_s);
  }
  return text;
}

std::string to_text(const OffloadRules& rules) {
  const RuleTable table(rules);
  std::string text = text_of(rules.general);
  for (const RoutineRow& row : routine_rows) {
    const Routine routine = row.routine;
    const OffloadRule& last = table.of(routine, ScalarType::z);  // every routine exists in this type
    const bool same = std::all_of(std::begin(scalar_types), std::end(scalar_types), [&](ScalarType type) {
      return !exists(routine, type) || table.of(routine, type) == last;
    });
    for (const ScalarType type : scalar_types) {
      if (!exists(routine, type) || table.of(routine, type) == rules.general) continue;
      if (same && type != ScalarType::z) continue;
      const std::string name = same ? row.real : letter(type) + std::string(name_of(routine, type));
      text += fmt::format("; {}: {}", name, text_of(table.of(routine, type)));
    }
  }
  return text;
}

}  // namespace tessera::offload
