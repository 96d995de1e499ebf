// What a thread block knows of the blocks of rows that others solve in the same launch (trsm_chain.hpp,
// trsv_chain.hpp).
#pragma once

#include "kernels/block/device_code.hpp"
#include "kernels/block/triangular_system.hpp"

namespace tessera::kernels::block {

/// What thread blocks tell each other through global memory: a number that is another one in each launch.
using Mark = unsigned long long;

/// Marks of one strip of right-hand sides, one per block of rows of the triangle, as one warp sees them.
class SolvedBlocks {
 public:
  /// @param solved what a mark is set to once its block is in global memory
  TESSERA_DEVICE SolvedBlocks(Mark* marks, Mark solved) : marks_(marks), solved_(solved) {}

  /// What the warp has asked for already.
  TESSERA_DEVICE bool knows(int block) const { return block < known_; }

  /// All of the warp. @param end of the blocks that somebody else solves; block < end
  template <class Machine>
  TESSERA_DEVICE void await(Machine& machine, int block, int end) {
    const int most = end - block < 32 ? end - block : 32;
    while (!knows(block)) known_ = block + machine.marks_set(marks_ + block, most, solved_);
  }

  /// All of the warp: what it has written is this block.
  template <class Machine>
  TESSERA_DEVICE void tell(Machine& machine, int block) const {
    machine.set_mark(marks_ + block, solved_);
  }

 private:
  Mark* const marks_;
  const Mark solved_;
  int known_ = 0;  ///< so many blocks from the first on
};

/// The rows of a system from those of a link of its chain on.
template <class Shape>
TESSERA_DEVICE TriangularSystem<typename Shape::E> system_of_link(TriangularSystem<typename Shape::E> system,
                                                                  int link) {
  const index_t first = static_cast<index_t>(link) * Shape::rows;
  system.L += first * (system.l_row + system.l_col);
  system.X += first * system.x_row;
  system.order = system.order - first < Shape::rows ? system.order - first : Shape::rows;
  return system;
}

}  // namespace tessera::kernels::block
