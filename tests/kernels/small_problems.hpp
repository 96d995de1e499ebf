// Problems of all ten routines that are small enough to be computed in every combination.
#pragma once

#include <complex>

#include "calls/level3.hpp"
#include "tests/level3_problem.hpp"

namespace tessera::test {

/// Calls f(fixture) for every routine, type, variant and factor, on shapes of which some are empty.
template <class F>
void for_each_small_problem(F&& f) {
  struct Shape {
    index_t m, n, k, padding;
  };
  constexpr Shape shapes[] = {{1, 1, 1, 0}, {9, 1, 4, 2}, {1, 8, 3, 0}, {17, 13, 21, 3},
                              {5, 4, 0, 1}, {0, 3, 2, 1}, {3, 0, 2, 1}};
  for (const Routine routine : all_routines) {
    for (const ScalarType type : types_of(routine)) {
      dispatch(type, [&]<Scalar T>(T) {
        for (const Shape& s : shapes) {
          for (const AnyScalar alpha : factors(type)) {
            for (const AnyScalar beta : factors(type)) {
              for (const bool apart : {false, true}) {
                if (apart && routine != Routine::trmm) continue;
                const Level3Case base{.routine = routine,
                                      .m = s.m,
                                      .n = s.n,
                                      .k = s.k,
                                      .alpha = alpha,
                                      .beta = beta,
                                      .padding = s.padding,
                                      .apart = apart};
                for_each_variant(type, base, [&](const Level3Case& c) {
                  Level3Fixture<T> fixture(c, 1);
                  if (!::testing::Test::HasFatalFailure()) f(fixture);
                });
              }
            }
          }
        }
      });
    }
  }
}

}  // namespace tessera::test
