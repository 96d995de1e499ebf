// The contestants that compute the measured calls: Tessera through its C API, the CPU BLAS, cublasXt.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calls/level3.hpp"
#include "cuda_peers/cuda_peers.h"

namespace tessera::tools {

struct Outcome {
  double seconds = 0;
  nlohmann::ordered_json job;  ///< Tessera's statistics of the call; null for others
};

class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual const std::string& name() const = 0;
  /// Computes the call and measures its time. @pre B of trmm is C @throws std::runtime_error if it failed
  virtual Outcome run(const Level3& call) = 0;
};

/// @param settings as for tessera_create_with()
std::unique_ptr<Contestant> make_tessera_contestant(const std::string& settings);

/// @param path of the CPU BLAS, as in TESSERA_CPU_BLAS; empty: the one that Tessera would find
std::unique_ptr<Contestant> make_cpu_contestant(const std::string& path);

/// @param pin whether the matrices are pageable, so that cublasXt may page-lock them during its calls
std::unique_ptr<Contestant> make_cublasxt_contestant(const tessera_bench_cuda& cuda, const std::vector<int>& ordinals,
                                                     int block_size, bool pin);

}  // namespace tessera::tools
