// Many problems of one of LAPACK's routines in device memory: the arguments of one of them for a thread block, and the
// place for its info.
#pragma once

#include <algorithm>
#include <iterator>

#include "calls/lapack.hpp"
#include "kernels/block/argument_positions.hpp"
#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"
#include "kernels/lapack_batch.hpp"

namespace tessera::kernels::block {

/// Integers of 32 or 64 bits in global memory.
struct Numbers {
  void* at = nullptr;
  bool is_wide = false;

  TESSERA_HOST_DEVICE index_t get(index_t i) const {
    return is_wide ? static_cast<const std::int64_t*>(at)[i] : static_cast<const int*>(at)[i];
  }
  TESSERA_HOST_DEVICE void set(index_t i, index_t value) const {
    if (is_wide)
      static_cast<std::int64_t*>(at)[i] = value;
    else
      static_cast<int*>(at)[i] = static_cast<int>(value);
  }
};

/// One problem. Members that its routine does not have are unused.
template <class Stored>
struct LapackProblem {
  using E = Stored;
  index_t m = 0, n = 0, nrhs = 0;  ///< A is m x n
  E* A = nullptr;
  index_t lda = 0;
  E* B = nullptr;
  index_t ldb = 0;
  Numbers ipiv;
};

template <class Stored>
struct LapackProblems {
  using E = Stored;
  using Problem = LapackProblem<E>;
  static constexpr int words = 8;  ///< words that describe a problem
  LapackPositions positions = {};
  bool is_square = true;
  bool is_wide = false;
  index_t count = 0;
  WordOfEach word[words] = {};
  Numbers info;  ///< info of each problem; null: not wanted, and all problems are good

  TESSERA_HOST_DEVICE Problem problem_of(const index_t (&w)[words]) const {
    return {is_square ? w[1] : w[0],
            w[1],
            w[2],
            reinterpret_cast<E*>(w[3]),
            w[4],
            reinterpret_cast<E*>(w[5]),
            w[6],
            {reinterpret_cast<void*>(w[7]), is_wide}};
  }
  TESSERA_HOST_DEVICE Problem problem(index_t i) const {
    index_t of_problem[words];
    for (int w = 0; w < words; ++w) of_problem[w] = word[w].of(i);
    return problem_of(of_problem);
  }

  /// Whether the problem is still to be computed: no earlier launch of the same call has ended it.
  TESSERA_HOST_DEVICE bool is_left(index_t i) const { return info.at == nullptr || info.get(i) == 0; }
};

/// The position of the first bad argument, in LAPACK's order; 0: none.
template <class E>
TESSERA_HOST_DEVICE int bad_argument(const LapackProblems<E>& problems, const LapackProblem<E>& problem) {
  const LapackPositions& position = problems.positions;
  constexpr index_t most = 0x7fffffff;  // pivots and places are counted in 31 bits
  if ((problem.m < 0 || problem.m > most) && position.m > 0) return position.m;
  if (problem.n < 0 || problem.n > most) return position.n;
  if (problem.nrhs < 0 && position.nrhs > 0) return position.nrhs;
  if (is_short_run(problem.lda, problem.m)) return position.lda;
  if (position.ldb > 0 && is_short_run(problem.ldb, problem.n)) return position.ldb;
  return 0;
}

/// @pre R and parts are those of the batch's type
template <class R, int parts>
LapackProblems<Element<R, parts>> lapack_problems(const LapackBatch& batch) {
  using E = Element<R, parts>;
  LapackProblems<E> made;
  made.positions = lapack_positions(batch.routine);
  made.is_square = made.positions.m == 0;
  made.is_wide = batch.is_wide;
  made.count = batch.count;
  const auto pivots = batch.is_wide ? WordOfEach(batch.ipiv.as<std::int64_t>()) : WordOfEach(batch.ipiv.as<int>());
  const WordOfEach words[] = {
      WordOfEach(batch.m),   WordOfEach(batch.n),         WordOfEach(batch.nrhs), WordOfEach(batch.A.as<E>()),
      WordOfEach(batch.lda), WordOfEach(batch.B.as<E>()), WordOfEach(batch.ldb),  pivots};
  std::copy(std::begin(words), std::end(words), made.word);
  made.info = {batch.info, batch.is_wide};
  return made;
}

}  // namespace tessera::kernels::block
