// A warp's knowledge of the row blocks that other thread blocks of the launch solve (trsm_chain.hpp, trsv_chain.hpp).
#pragma once

#include "kernels/block/device_code.hpp"
#include "kernels/block/triangular_system.hpp"

namespace tessera::kernels::block {

/// A flag between thread blocks, in global memory. Each launch uses another number, so flags need no reset.
using Mark = unsigned long long;

/// The marks of one strip of right-hand sides, one per row block of the triangle, as one warp sees them.
class SolvedBlocks {
 public:
  /// @param solved the value that a mark gets once its block is in global memory
  TESSERA_DEVICE SolvedBlocks(Mark* marks, Mark solved) : marks_(marks), solved_(solved) {}

  /// Whether the warp has already seen the block's mark.
  TESSERA_DEVICE bool knows(int block) const { return block < known_; }

  /// Waits until the block is solved. @pre all of the warp calls it; block < end
  /// @param end of the blocks that other thread blocks solve
  template <class Machine>
  TESSERA_DEVICE void await(Machine& machine, int block, int end) {
    const int most = end - block < 32 ? end - block : 32;
    while (!knows(block)) known_ = block + machine.marks_set(marks_ + block, most, solved_);
  }

  /// Marks the block as solved. @pre all of the warp calls it, after writing the block
  template <class Machine>
  TESSERA_DEVICE void tell(Machine& machine, int block) const {
    machine.set_mark(marks_ + block, solved_);
  }

 private:
  Mark* const marks_;
  const Mark solved_;
  int known_ = 0;  ///< blocks from the first on whose marks the warp has seen
};

/// The part of a system that one link of its chain solves.
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
