// Many triangular solves or in-place products of one form, in device memory. A thread block takes the arguments of one
// of them from here.
#pragma once

#include <algorithm>
#include <iterator>

#include "kernels/block/triangular_system.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::block {

template <class Stored>
struct TriangularBatch {
  using E = Stored;
  using Problem = TriangularProblem<E>;
  static constexpr int words = 6;  ///< words that describe a problem
  TriangularForm<E> form = {};
  ArgumentPositions positions = {};
  index_t count = 0;
  WordOfEach word[words] = {};

  static TESSERA_HOST_DEVICE Problem problem_of(const index_t (&w)[words]) {
    return {w[0], w[1], reinterpret_cast<const E*>(w[2]), w[3], reinterpret_cast<E*>(w[4]), w[5]};
  }
  TESSERA_HOST_DEVICE Problem problem(index_t i) const {
    index_t of_problem[words];
    for (int w = 0; w < words; ++w) of_problem[w] = word[w].of(i);
    return problem_of(of_problem);
  }
};

/// @pre trmm or trsm; R and parts are those of the batch's type
template <class R, int parts>
TriangularBatch<Element<R, parts>> triangular_batch(const Level3Batch& batch) {
  using E = Element<R, parts>;
  TriangularBatch<E> made;
  made.form = triangular_form<R, parts>(batch.common);
  made.positions = argument_positions(batch.common.routine);
  made.count = batch.count;
  const WordOfEach words[] = {WordOfEach(batch.m),   WordOfEach(batch.n),         WordOfEach(batch.A.as<const E>()),
                              WordOfEach(batch.lda), WordOfEach(batch.C.as<E>()), WordOfEach(batch.ldc)};
  std::copy(std::begin(words), std::end(words), made.word);
  return made;
}

}  // namespace tessera::kernels::block
