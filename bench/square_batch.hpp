// Batches of square problems in device memory, on which blocks and strips are measured.
#pragma once

#include <cuda_runtime.h>

#include <random>
#include <vector>

#include "bench/device_timer.hpp"
#include "core/level3.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::bench {

using kernels::Level3Batch;

inline constexpr int square_problems = 2000, many_square_problems = 10000;

/// Square problems of a routine without sides and triangles that matter: gemm with beta = 1, or a triangular one with a
/// diagonal of one.
template <Scalar T>
class SquareBatch {
 public:
  /// @param all_alike all have the most; else sizes are uniform in [1, most]
  SquareBatch(Routine routine, index_t most, bool all_alike)
      : most_(most),
        sizes_(sizes(most, all_alike)),
        elements_(count(sizes_)),
        A_(elements_),
        B_(elements_),
        C_(elements_) {
    fill<T>(A_.get(), 0, elements_);
    fill<T>(B_.get(), 0, elements_);
    clear();
    Level3& common = batch_.common;
    common.routine = routine;
    common.type = scalar_type_of<T>();
    common.diag = Diag::unit;
    common.m = common.n = common.k = most;
    if (routine == Routine::gemm) common.alpha = 1e-3;
    common.beta = 1;
    batch_.count = static_cast<index_t>(sizes_.size());
    for (auto* const number : {&batch_.m, &batch_.n, &batch_.k, &batch_.lda, &batch_.ldb, &batch_.ldc}) {
      number->of_all = most;
      if (!all_alike) number->of_each = sizes_on_device_.get();
    }
    batch_.A.of_each = pointers_[0].get();
    batch_.B.of_each = pointers_[1].get();
    batch_.C.of_each = pointers_[2].get();
  }

  const Level3Batch& batch() const { return batch_; }
  index_t most() const { return most_; }
  double flops() const {
    double sum = 0;
    for (const int n : sizes_) sum += (is_complex(batch_.common.type) ? 8.0 : 2.0) * n * n * n;
    return batch_.common.is_triangular() ? sum / 2 : sum;
  }
  void clear() const { check(cudaMemset(C_.get(), 0, static_cast<std::size_t>(elements_) * sizeof(T)), "memset"); }
  std::vector<unsigned char> result() const {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(elements_) * sizeof(T));
    check(cudaMemcpy(bytes.data(), C_.get(), bytes.size(), cudaMemcpyDeviceToHost), "result");
    return bytes;
  }

 private:
  static std::vector<int> sizes(index_t most, bool all_alike) {
    std::mt19937 random(1);
    std::vector<int> sizes(most <= 32 && all_alike ? many_square_problems : square_problems, static_cast<int>(most));
    if (all_alike) return sizes;
    for (int& n : sizes) n = 1 + static_cast<int>(random() % static_cast<unsigned>(most));
    return sizes;
  }
  static index_t count(const std::vector<int>& sizes) {
    index_t sum = 0;
    for (const index_t n : sizes) sum += n * n;
    return sum;
  }
  std::vector<T*> pointers(T* first) const {
    std::vector<T*> all;
    for (const index_t n : sizes_) {
      all.push_back(first);
      first += n * n;
    }
    return all;
  }

  const index_t most_;
  const std::vector<int> sizes_;
  const index_t elements_;
  DeviceArray<T> A_, B_, C_;
  DeviceArray<int> sizes_on_device_{sizes_};
  DeviceArray<T*> pointers_[3] = {DeviceArray<T*>(pointers(A_.get())), DeviceArray<T*>(pointers(B_.get())),
                                  DeviceArray<T*>(pointers(C_.get()))};
  Level3Batch batch_;
};

}  // namespace tessera::bench
