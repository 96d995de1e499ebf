// Host memory of a measured matrix: page-locked or pageable, filled by all cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "bench/cuda_peers.h"
#include "core/scalar.hpp"

namespace tessera::tools {

class HostMatrix {
 public:
  /// @param cuda where page-locked memory comes from; nullptr: pageable memory
  /// @throws std::runtime_error if there is not enough
  HostMatrix(std::size_t bytes, const tessera_bench_cuda* cuda);
  ~HostMatrix();
  HostMatrix(const HostMatrix&) = delete;
  HostMatrix& operator=(const HostMatrix&) = delete;

  void* data() const { return data_; }

  /// Fills all of it with numbers in (-0.5, 0.5) that depend on `seed` and the position only.
  void fill_random(ScalarType type, std::uint64_t seed);

 private:
  std::size_t bytes_;
  const tessera_bench_cuda* cuda_;
  void* data_;
};

/// Calls `body(begin, end)` for parts of [0, count) on all cores and waits.
void for_each_part(std::int64_t count, const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace tessera::tools
