#include "bench_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cuda_module.hpp"
#include "told_job.hpp"

namespace tessera::tools {
namespace {

BenchMachine::Rates measured_rates(const BenchMachine& machine, ScalarType type) {
  tessera_bench_rates measured{};
  if (machine.cuda->measure_rates(machine.ordinals.data(), static_cast<int>(machine.ordinals.size()), letter(type),
                                  &measured) != 0) {
    throw std::runtime_error(fmt::format("measuring the GPUs: {}", machine.cuda->last_error()));
  }
  const auto count = static_cast<double>(machine.ordinals.size());
  return {true,
          count * measured.flops_per_s,
          {measured.up_bytes_per_s, measured.down_bytes_per_s, measured.both_bytes_per_s},
          {{"source", "measured"}, {"cublas", machine.cuda->cublas_version()}}};
}

BenchMachine::Rates rates_of_settings(const Config& config, ScalarType type) {
  BenchMachine::Rates result{true, 0, {}, {{"source", "settings"}}};
  bool links_known = true;
  for (const int device : config.device_share(config.host_devices).ordinals()) {
    const HostDeviceSettings& settings = config.host_device_settings(device);
    const double flops_per_s = settings.flops_per_s[type];
    result.flops_per_s += flops_per_s;
    result.links.up += settings.link_bytes_per_s;
    if (flops_per_s <= 0) result.known = false;
    if (settings.link_bytes_per_s <= 0) links_known = false;
  }
  if (!links_known) result.links.up = 0;  // one unlimited link makes the total unlimited
  result.links.down = result.links.up;
  result.links.both = 2 * result.links.up;
  return result;
}

}  // namespace

BenchMachine::BenchMachine(const Config& config, const std::vector<ScalarType>& types, bool pinned,
                           const std::string& needs_gpus) {
  std::string why;
  if (config.devices == DeviceChoice::automatic || config.devices == DeviceChoice::plugin) {
    cuda = cuda_module(why);
    if (cuda == nullptr && config.devices == DeviceChoice::plugin) throw std::runtime_error("CUDA: " + why);
  } else if (pinned) {
    cuda = cuda_module(why);
  }
  if (cuda != nullptr && config.devices != DeviceChoice::host && config.devices != DeviceChoice::none) {
    ordinals = config.ordinals;
    if (ordinals.empty()) ordinals = config.device_share(cuda->device_count()).ordinals();
  }
  for (const ScalarType type : types) {
    Rates& one = rates[type];
    if (!ordinals.empty()) {
      one = measured_rates(*this, type);
    } else if (config.devices == DeviceChoice::host) {
      one = rates_of_settings(config, type);
    }
    if (one.known) {
      one.description["flops_per_s"] = one.flops_per_s;
      one.description["up_bytes_per_s"] = one.links.up;
      one.description["down_bytes_per_s"] = one.links.down;
      one.description["both_bytes_per_s"] = one.links.both;
    }
  }
  if (pinned && cuda == nullptr) {
    throw std::runtime_error("page-locked memory needs CUDA: " + (why.empty() ? "no CUDA devices in use" : why));
  }
  if (!needs_gpus.empty() && ordinals.empty()) {
    throw std::runtime_error(needs_gpus + " needs GPUs" + (why.empty() ? "" : ": " + why));
  }
}

double BenchMachine::in_core_seconds(ScalarType type, double flops) {
  const auto expect = [this](int status) {
    if (status != 0) throw std::runtime_error(fmt::format("measuring the GPUs: {}", cuda->last_error()));
  };
  auto found = products_.find(type);
  if (found == products_.end()) {
    tessera_bench_products made = nullptr;
    expect(cuda->products_create(ordinals.data(), static_cast<int>(ordinals.size()), letter(type), &made));
    found = products_.emplace(type, Products(made, {cuda})).first;
  }
  double seconds = 0;
  expect(cuda->products_run(found->second.get(), flops, &seconds));
  return seconds;
}

void BenchMachine::require_same_gpus(const nlohmann::ordered_json& job) const {
  std::vector<std::string> used, expected;
  for (const DeviceStatistics& device : job_from_json(job).devices) {
    if (device.device != "cpu") used.push_back(device.device);
  }
  for (const int ordinal : ordinals) expected.push_back(fmt::format("cuda:{}", ordinal));
  std::sort(used.begin(), used.end());
  std::sort(expected.begin(), expected.end());
  if (used != expected) {
    throw std::runtime_error(fmt::format("Tessera used {} device(s) but cublasXt {}", used.size(), expected.size()));
  }
}

}  // namespace tessera::tools
