// Host memory of a measured matrix: page-locked or pageable, filled by all cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/scalar.hpp"
#include "cuda_peers/cuda_peers.h"

namespace tessera::tools {

class HostMatrix {
 public:
  /// @param cuda the source of page-locked memory; nullptr: pageable memory
  /// @throws std::runtime_error if there is not enough
  HostMatrix(std::size_t bytes, const tessera_bench_cuda* cuda);
  ~HostMatrix();
  HostMatrix(const HostMatrix&) = delete;
  HostMatrix& operator=(const HostMatrix&) = delete;

  void* data() const { return data_; }

  /// Fills the first `bytes` with numbers in (-0.5, 0.5) that depend on `seed` and the position only.
  void fill_random(ScalarType type, std::size_t bytes, std::uint64_t seed);

  /// Makes each triangle of the order x order matrix of random numbers well conditioned, both with its own diagonal and
  /// with a unit diagonal. It divides all elements off the diagonal by sqrt(order), and adds 1 to the diagonal.
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
