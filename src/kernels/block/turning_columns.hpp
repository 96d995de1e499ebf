// Columns of a matrix whose rows threads have in registers, one column after the other. Registers have no index at run
// time, and code for each column by itself is too long for a GPU's instruction cache, so that warps wait for most of
// it. So columns come in groups whose elements change places: the column in turn is the group's first, and goes to its
// end. One piece of code then serves all of a group, and after as many turns each column is in its place again.
#pragma once

#include "kernels/block/device_code.hpp"

namespace tessera::kernels::block {

/// Columns of a group: one by itself where there are so few that the code for all is not too long, which then is
/// quicker.
constexpr int group_of_columns(int columns) { return columns <= 32 ? 1 : 4; }

/// A turn: each element takes the place before it, as change(its place, element); `last` comes behind them. By value,
/// since it may be one of them.
template <int of_group, class E, class Change>
TESSERA_DEVICE void turn_group(E* group, E last, Change change) {
  TESSERA_UNROLL
  for (int j = 1; j < of_group; ++j) group[j - 1] = change(j, group[j]);
  group[of_group - 1] = last;
}
/// The turns that are left, where the matrix has no more columns.
template <int of_group, class E>
TESSERA_DEVICE void finish_turns(E* group, int turn) {
  TESSERA_NO_UNROLL
  for (; turn < of_group; ++turn) turn_group<of_group>(group, group[0], [](int, const E& old) { return old; });
}

}  // namespace tessera::kernels::block
