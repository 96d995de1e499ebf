// The devices that the settings of a measurement select, and their rates. Peers compute on these devices, and the bound
// of docs/bench.md is computed from the rates.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/config.hpp"
#include "core/scalar.hpp"
#include "cuda_peers/cuda_peers.h"
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
  /// @param pinned         whether page-locked memory is requested, with or without GPUs in use
  /// @param needs_gpus     the option that needs GPUs; empty: none does
  /// @throws std::runtime_error if something that was requested is missing
  BenchMachine(const Config& config, const std::vector<ScalarType>& types, bool pinned, const std::string& needs_gpus);

  /// Seconds that cuBLAS takes at this moment for this many operations of gemm on matrices in the memory of these GPUs,
  /// all at once. This is the sustained rate. It is lower than that of a short measurement if power limits the GPUs.
  /// @pre !ordinals.empty() @throws std::runtime_error
  double in_core_seconds(ScalarType type, double flops);

  /// Checks that both contestants used the same GPUs; otherwise the comparison means nothing.
  /// @param job Tessera's statistics
  /// @throws std::runtime_error if not
  void require_same_gpus(const nlohmann::ordered_json& job) const;

 private:
  struct ProductsDestroy {
    const tessera_bench_cuda* cuda;
    void operator()(tessera_bench_products products) const { cuda->products_destroy(products); }
  };
  using Products = std::unique_ptr<tessera_bench_products_struct, ProductsDestroy>;

  std::map<ScalarType, Products> products_;  ///< made at the first request
};

}  // namespace tessera::tools
