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

  /// Fills the first `bytes` with numbers in (-0.5, 0.5) that depend on `seed` and the position only.
  void fill_random(ScalarType type, std::size_t bytes, std::uint64_t seed);

  /// Makes each triangle of the order x order matrix of random numbers well conditioned, with its own diagonal as with ones:
  /// divides everything by sqrt(order) but the diagonal, to which it adds 1.
  void condition_triangle(ScalarType type, index_t order, index_t ld);

  /// @pre same size
  void copy_from(const HostMatrix& other, std::size_t bytes);

 private:
  std::size_t bytes_;
  const tessera_bench_cuda* cuda_;
  void* data_;
};

/// Calls `body(begin, end)` for parts of [0, count) on all cores and waits.
void for_each_part(std::int64_t count, const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace tessera::tools
