// Threads hold rows of a matrix in registers and work on one column after the other. Registers cannot be indexed at run
// time. Separate code for each column is too long for a GPU's instruction cache, and warps would wait for most of it.
// So columns form groups whose elements rotate: the current column is the group's first, and then moves to the end of
// the group. One piece of code serves the whole group, and after as many turns each column is in its place again.
#pragma once

#include "kernels/block/device_code.hpp"

namespace tessera::kernels::block {

/// Columns of a group. With few columns in all, a group is a single column: separate code for each is short enough
/// then, and faster.
constexpr int group_of_columns(int columns) { return columns <= 32 ? 1 : 4; }

/// One turn: each element moves one place forward, as change(its place, element), and `last` becomes the group's last.
/// It is passed by value, since it may be one of the elements.
template <int of_group, class E, class Change>
TESSERA_DEVICE void turn_group(E* group, E last, Change change) {
  TESSERA_UNROLL
  for (int j = 1; j < of_group; ++j) group[j - 1] = change(j, group[j]);
  group[of_group - 1] = last;
}
/// The remaining turns of a group, where the matrix has no more columns.
template <int of_group, class E>
TESSERA_DEVICE void finish_turns(E* group, int turn) {
  TESSERA_NO_UNROLL
  for (; turn < of_group; ++turn) turn_group<of_group>(group, group[0], [](int, const E& old) { return old; });
}

}  // namespace tessera::kernels::block
