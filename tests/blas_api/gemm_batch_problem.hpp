// Batches of gemm in memory that shows what is read and written.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "tessera/tessera.hpp"

namespace tessera::test {

struct ProductShape {
  index_t m = 0, n = 0, k = 0;
};

/// Matrices in one piece of memory: what is not an element of one of them is poison, which must stay.
template <Scalar T>
class GemmBatchProblem {
 public:
  explicit GemmBatchProblem(tessera_layout layout, unsigned seed = 1) : layout_(layout), random_(seed) {}

  /// @param shares_a all products of the group have one A
  void add_group(ProductShape shape, tessera_transpose ta, tessera_transpose tb, T alpha, T beta, index_t count,
                 bool shares_a = false) {
    const bool row_major = layout_ == TESSERA_ROW_MAJOR;
    const auto run_of = [&](index_t rows, index_t cols) { return row_major ? cols : rows; };
    const auto runs_of = [&](index_t rows, index_t cols) { return row_major ? rows : cols; };
    const auto [m, n, k] = shape;
    const index_t a_rows = ta == TESSERA_NO_TRANS ? m : k, a_cols = ta == TESSERA_NO_TRANS ? k : m;
    const index_t b_rows = tb == TESSERA_NO_TRANS ? k : n, b_cols = tb == TESSERA_NO_TRANS ? n : k;
    transa.push_back(ta), transb.push_back(tb);
    this->m.push_back(m), this->n.push_back(n), this->k.push_back(k);
    this->alpha.push_back(alpha), this->beta.push_back(beta);
    lda.push_back(std::max<index_t>(run_of(a_rows, a_cols), 1) + 1);
    ldb.push_back(std::max<index_t>(run_of(b_rows, b_cols), 1) + 3);
    ldc.push_back(std::max<index_t>(run_of(m, n), 1) + 2);
    size.push_back(count);
    const bool multiplies = alpha != T(0) && k > 0;
    for (index_t i = 0; i < count; ++i) {
      if (shares_a && i > 0) {
        a_.push_back(a_.back());
      } else {
        a_.push_back(matrix(run_of(a_rows, a_cols), runs_of(a_rows, a_cols), lda.back(), multiplies));
      }
      b_.push_back(matrix(run_of(b_rows, b_cols), runs_of(b_rows, b_cols), ldb.back(), multiplies));
      c_.push_back(matrix(run_of(m, n), runs_of(m, n), ldc.back(), beta != T(0)));
    }
  }

  /// So many groups of random sizes up to `largest`, 0 and 1 among them.
  void add_random_groups(int groups, index_t largest, index_t most_products) {
    const auto below = [&](index_t bound) { return static_cast<index_t>(random_() % static_cast<unsigned>(bound)); };
    const tessera_transpose ops[] = {TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS};
    const T other = scalar_cast<T>(AnyScalar(1.25, -0.5));
    const T factors[] = {T(1), other, T(0), other};
    for (int g = 0; g < groups; ++g) {
      const auto size = [&] { return below(8) == 0 ? below(2) : 1 + below(largest); };
      const ProductShape shape{size(), size(), size()};
      add_group(shape, ops[below(3)], ops[below(3)], factors[below(4)], factors[below(4)], below(most_products + 1),
                below(4) == 0);
    }
  }

  index_t products() const { return static_cast<index_t>(c_.size()); }

  void run(const Context& context) {
    const std::vector<const T*> A = addresses<const T>(a_), B = addresses<const T>(b_);
    const std::vector<T*> C = addresses<T>(c_);
    gemm_batch(context, layout_, transa.data(), transb.data(), m.data(), n.data(), k.data(), alpha.data(), A.data(),
               lda.data(), B.data(), ldb.data(), beta.data(), C.data(), ldc.data(),
               static_cast<std::int64_t>(size.size()), size.data());
  }

  /// Runs the batch and compares all of the memory.
  void check(const Context& context) {
    std::vector<T> expected = memory_;
    std::vector<double> bounds(memory_.size(), 0);
    compute(expected, bounds);
    run(context);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const bool good = bounds[i] > 0 ? std::abs(memory_[i] - expected[i]) <= bounds[i]
                                      : std::memcmp(&memory_[i], &expected[i], sizeof(T)) == 0;
      if (!good && ++wrong <= 3)
        ADD_FAILURE() << "element " << i << " of all: " << memory_[i] << ", not " << expected[i];
    }
    EXPECT_EQ(wrong, 0u);
  }

  std::vector<tessera_transpose> transa, transb;
  std::vector<std::int64_t> m, n, k, lda, ldb, ldc, size;
  std::vector<T> alpha, beta;

 private:
  static T poison() { return scalar_cast<T>(AnyScalar(std::nan("7"), std::nan("7"))); }

  std::size_t matrix(index_t run, index_t runs, index_t ld, bool is_read) {
    const std::size_t at = memory_.size();
    memory_.resize(at + static_cast<std::size_t>(ld * runs), poison());
    std::uniform_real_distribution<double> value(-0.5, 0.5);
    for (index_t j = 0; j < runs && is_read; ++j) {
      for (index_t i = 0; i < run; ++i)
        memory_[at + static_cast<std::size_t>(i + j * ld)] = scalar_cast<T>(AnyScalar(value(random_), value(random_)));
    }
    return at;
  }

  template <class E>
  std::vector<E*> addresses(const std::vector<std::size_t>& offsets) {
    std::vector<E*> all;
    for (const std::size_t offset : offsets) all.push_back(memory_.data() + offset);
    return all;
  }

  void compute(std::vector<T>& in, std::vector<double>& bounds) const {
    const auto op = [](tessera_transpose transpose) {
      return static_cast<Op>(static_cast<int>(transpose) - TESSERA_NO_TRANS);
    };
    constexpr bool single = std::is_same_v<T, float> || std::is_same_v<T, std::complex<float>>;
    std::size_t product = 0;
    for (std::size_t g = 0; g < size.size(); ++g) {
      for (index_t i = 0; i < size[g]; ++i, ++product) {
        const T *A = in.data() + a_[product], *B = in.data() + b_[product];
        T* const C = in.data() + c_[product];
        const bool row_major = layout_ == TESSERA_ROW_MAJOR;
        if (row_major) {
          kernels::reference_gemm<T, kernels::Wide<T>>(op(transb[g]), op(transa[g]), n[g], m[g], k[g], alpha[g], B,
                                                       ldb[g], A, lda[g], beta[g], C, ldc[g]);
        } else {
          kernels::reference_gemm<T, kernels::Wide<T>>(op(transa[g]), op(transb[g]), m[g], n[g], k[g], alpha[g], A,
                                                       lda[g], B, ldb[g], beta[g], C, ldc[g]);
        }
        const double bound = (single ? 6e-8 : 1.2e-16) * 8 * static_cast<double>(k[g] + 4);
        for (index_t c = 0; c < (row_major ? m[g] : n[g]); ++c) {
          for (index_t r = 0; r < (row_major ? n[g] : m[g]); ++r)
            bounds[c_[product] + static_cast<std::size_t>(r + c * ldc[g])] = bound;
        }
      }
    }
  }

  tessera_layout layout_;
  std::mt19937 random_;
  std::vector<T> memory_;
  std::vector<std::size_t> a_, b_, c_;
};

}  // namespace tessera::test
