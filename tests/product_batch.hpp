// A batch of small products for tests of the runtime: made, computed, and compared with loops, bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <optional>
#include <random>
#include <vector>

#include "calls/gemm_batch.hpp"
#include "core/error.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/batches/gemm_chunks.hpp"
#include "runtime/runtime.hpp"

namespace tessera::test {

/// Small products in both forms of beta, enough for several chunks.
class Products {
 public:
  explicit Products(unsigned seed) : random_(seed) {
    for (int i = 0; i < count; ++i) add(20 + size(30), 20 + size(30), size(20), i % 2);
  }
  GemmBatch batch() {
    GemmBatchBuilder builder(ScalarType::d);
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const auto& [m, n, k, beta, a, b, c] = sizes_[i];
      builder.add(
          {.arguments =
               {.op_a = Op::no_trans, .op_b = Op::no_trans, .m = m, .n = n, .k = k, .lda = m, .ldb = k, .ldc = m + 1},
           .beta = static_cast<double>(beta),
           .A = {.first = values_.data() + a},
           .B = {.first = values_.data() + b},
           .C = {.first = values_.data() + c},
           .count = 1});
    }
    return builder.take();
  }
  const std::vector<double>& values() const { return values_; }
  static constexpr int count = 200;

 private:
  struct Sizes {
    index_t m, n, k;
    int beta;
    std::size_t a, b, c;
  };
  index_t size(unsigned most) { return static_cast<index_t>(1 + random_() % most); }
  std::size_t matrix(index_t elements) {
    const std::size_t at = values_.size();
    for (index_t i = 0; i < elements; ++i) values_.push_back(static_cast<double>(random_() % 1024) / 256);
    return at;
  }
  void add(index_t m, index_t n, index_t k, int beta) {
    const std::size_t a = matrix(m * k), b = matrix(k * n), c = matrix((m + 1) * n);
    sizes_.push_back({m, n, k, beta, a, b, c});
  }

  std::mt19937 random_;
  std::vector<Sizes> sizes_;
  std::vector<double> values_;
};

/// One batch; the CPU finishes it if the devices refuse it. @return statistics if it ran on devices
inline std::optional<runtime::JobStatistics> compute_batch(runtime::Runtime& runtime, unsigned seed) {
  Products products(seed), same(seed);
  const GemmBatch batch = products.batch(), expected = same.batch();
  const auto by_loops = [](const GemmBatch& some, index_t first, index_t last) {
    for (index_t i = first; i < last; ++i) kernels::reference_level3(some.call(i));
  };
  by_loops(expected, 0, expected.size());
  std::optional<runtime::JobStatistics> statistics;
  try {
    statistics = runtime.run_batch(*runtime::packable(batch),
                                   [&](index_t first, index_t last) { by_loops(batch, first, last); });
  } catch (const NoDeviceLeft&) {
    by_loops(batch, 0, batch.size());
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  EXPECT_EQ(products.values(), same.values());
  return statistics;
}

}  // namespace tessera::test
