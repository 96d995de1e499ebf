// The devices that the settings of a measurement lead to, and how fast they are: what a peer gets to compute on, and what the
// bound of docs/bench.md is made of.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
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
  /// @param needs_gpus     the option that needs GPUs; empty: none does
  /// @throws std::runtime_error if something asked for is not there
  BenchMachine(const Config& config, const std::vector<ScalarType>& types, bool pinned, const std::string& needs_gpus);

  /// Seconds that cuBLAS takes for as many operations of gemm on matrices in the memory of these GPUs, all at once, at this moment: what
  /// they keep up, which is less than a short measurement shows where power is what limits them.
  /// @pre !ordinals.empty() @throws std::runtime_error
  double in_core_seconds(ScalarType type, double flops);

  /// A comparison is only one if both had the same GPUs. @param job Tessera's statistics @throws std::runtime_error if not
  void require_same_gpus(const nlohmann::ordered_json& job) const;

 private:
  struct ProductsDestroy {
    const tessera_bench_cuda* cuda;
    void operator()(tessera_bench_products products) const { cuda->products_destroy(products); }
  };
  using Products = std::unique_ptr<tessera_bench_products_struct, ProductsDestroy>;

  std::map<ScalarType, Products> products_;  ///< made when first asked for
};

}  // namespace tessera::tools
