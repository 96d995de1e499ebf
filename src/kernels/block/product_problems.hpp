// The problems of a batch of products of one form. Their sizes, leading dimensions and addresses are in device memory, or one
// value serves all.
#pragma once

#include <algorithm>
#include <iterator>

#include "kernels/block/device_code.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::block {

/// One problem of the batch. Where C is square, m equals n. k has a meaning only where the routine has one.
template <class Stored>
struct ProductProblem {
  using E = Stored;
  index_t m = 0, n = 0, k = 0;
  const E* A = nullptr;
  index_t lda = 0;
  const E* B = nullptr;
  index_t ldb = 0;
  E* C = nullptr;
  index_t ldc = 0;
};

template <class Stored>
struct ProductProblems {
  using E = Stored;
  using Problem = ProductProblem<E>;
  static constexpr int words = 9;  ///< words that describe a problem
  index_t count = 0;
  WordOfEach word[words] = {};

  static TESSERA_HOST_DEVICE Problem problem_of(const index_t (&w)[words]) {
    return {w[0], w[1],
            w[2], reinterpret_cast<const E*>(w[3]),
            w[4], reinterpret_cast<const E*>(w[5]),
            w[6], reinterpret_cast<E*>(w[7]),
            w[8]};
  }
  TESSERA_HOST_DEVICE Problem problem(index_t i) const {
    index_t of_problem[words];
    for (int w = 0; w < words; ++w) of_problem[w] = word[w].of(i);
    return problem_of(of_problem);
  }

  /// Host code. @pre E is the batch's stored type @param square C is
  void take(const Level3Batch& batch, bool square) {
    const WordOfEach of_batch[] = {WordOfEach(square ? batch.n : batch.m),
                                   WordOfEach(batch.n),
                                   WordOfEach(batch.k),
                                   WordOfEach(batch.A.as<const E>()),
                                   WordOfEach(batch.lda),
                                   WordOfEach(batch.B.as<const E>()),
                                   WordOfEach(batch.ldb),
                                   WordOfEach(batch.C.as<E>()),
                                   WordOfEach(batch.ldc)};
    count = batch.count;
    std::copy(std::begin(of_batch), std::end(of_batch), word);
  }
};

}  // namespace tessera::kernels::block
