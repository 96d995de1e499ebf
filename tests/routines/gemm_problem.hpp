// Level-3 problems run on a runtime.
#pragma once

#include "routines/level3.hpp"
#include "tests/level3_problem.hpp"

namespace tessera::test {

/// Runs a case in each of its types on the runtime and checks it.
inline void expect_right_in_all_types(runtime::Runtime& runtime, const Level3Case& c, index_t tile, unsigned seed) {
  for (const ScalarType type : types_of(c.routine)) {
    dispatch(type, [&]<class T>(T) {
      Level3Fixture<T> fixture(c, seed);
      routines::run(runtime, fixture.problem(), tile);
      EXPECT_TRUE(fixture.check()) << "tile " << tile;
    });
  }
}

}  // namespace tessera::test
