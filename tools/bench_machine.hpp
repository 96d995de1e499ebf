// The devices that the settings of a measurement lead to, and how fast they are: what a peer gets to compute on, and what the
// bound of docs/bench.md is made of.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/cuda_peers.h"
#include "core/config.hpp"
#include "core/scalar.hpp"
#include "runtime/performance_model.hpp"

namespace tessera::tools {

struct BenchMachine {
  struct Rates {
    bool known = false;
    double flops_per_s = 0;
    runtime::LinkRates links;
    nlohmann::ordered_json description;  ///< null if not known
  };

  const tessera_bench_cuda* cuda = nullptr;
  std::vector<int> ordinals;  ///< of the GPUs in use
  std::map<ScalarType, Rates> rates;

  /// Measures GPUs, once for each type; takes the rates of host devices from their settings.
  /// @param pinned         page-locked memory is asked for, with or without GPUs in use
  /// @param needs_gpus     so does a peer
  /// @throws std::runtime_error if something asked for is not there
  BenchMachine(const Config& config, const std::vector<ScalarType>& types, bool pinned, bool needs_gpus);

  /// A comparison is only one if both had the same GPUs. @param job Tessera's statistics @throws std::runtime_error if not
  void require_same_gpus(const nlohmann::ordered_json& job) const;
};

}  // namespace tessera::tools
