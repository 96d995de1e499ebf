// A triangular solve by thread blocks that hand on what they have solved: L X = alpha B, L lower triangular with any
// number of rows, for a strip of right-hand sides. With few of them a solve is one chain from block of 16 rows to block
// of 16 rows; products between leaves, each a launch, would stand in it, too.
//
// Each link of the chain is a thread block that solves one leaf (trsm_strip.hpp). Before, its warps take off what the
// links before it have solved, block by block as soon as these are there (left-looking): they wait for marks in global
// memory. What a link adds to the chain is the way of the last block through global memory.
//
// A link waits only for links before it. Who draws their numbers in the order in which thread blocks begin, has no need
// of all of them on the device at a time: the first one that has not ended always runs.
//
// Arithmetic: sums of the products with all blocks before, in order, are taken off at once; else as in trsm_strip.hpp,
// and so is the error bound.
#pragma once

#include <type_traits>

#include "kernels/block/solved_blocks.hpp"
#include "kernels/block/trsm_strip.hpp"

namespace tessera::kernels::block {

template <class Shape, class Machine>
class StripLink : private StripSolver<Shape, Machine> {
  using Solver = StripSolver<Shape, Machine>;
  using typename Solver::Rows;
  using typename Solver::Tile;
  /// The chain is not to wait for L: some of its blocks are on their way at a time. Not in double complex, where the
  /// one that registers have room for is on its way for long enough.
  using Factors = std::conditional_t<sizeof(typename Shape::E) < 16, typename Solver::template FactorRing<4>,
                                     typename Solver::FactorStream>;

 public:
  /// Shared memory: that of a leaf, and per warp the block that it takes off, and blocks of L.
  struct Memory {
    StripMemory<Shape> leaf;
    typename Shape::R taken[Shape::warps][Shape::parts][rows_per_block * Shape::stride];
    typename Factors::Memory factors[Shape::warps];
  };

  /// @param of_link system_of_link() @param solved for the strip that begins with this column, with all blocks of the
  /// triangle
  TESSERA_DEVICE StripLink(const TriangularSystem<typename Shape::E>& of_link, Memory& memory, int link,
                           index_t first_column, const SolvedBlocks& solved, Machine machine)
      : Solver(of_link, memory.leaf, first_column, machine),
        link_memory_(memory),
        blocks_before_(link * Shape::warps),
        solved_(solved) {}

  TESSERA_DEVICE void run() { this->solve_behind(BlocksBefore(*this)); }

 private:
  class BlocksBefore {
   public:
    TESSERA_DEVICE explicit BlocksBefore(StripLink& link) : count(link.blocks_before_), link_(link) {
      TESSERA_UNROLL
      for (int p = 0; p < Shape::parts; ++p) rows_.part[p] = link.link_memory_.taken[link.machine_.warp()][p];
    }

    const int count;

    TESSERA_DEVICE Factors factors(Solver& solver, int block) const {
      return {solver, block, -count, link_.link_memory_.factors[block]};
    }

    /// The block after it is on its way meanwhile if it is solved.
    TESSERA_DEVICE Rows rows(int k) {
      const int block = count + k;
      if (block >= coming_) ask_for(block);
      link_.machine_.sync_warp();  // all lanes have used the former block
      link_.put_rows(next_, rows_);
      link_.machine_.sync_warp();
      if (link_.solved_.knows(block + 1)) ask_for(block + 1);
      return rows_;
    }

    TESSERA_DEVICE void tell(int k) const { link_.solved_.tell(link_.machine_, count + k); }

   private:
    TESSERA_DEVICE void ask_for(int block) {
      link_.solved_.await(link_.machine_, block, count);
      link_.load_right_hand_sides(next_, block - count);
      coming_ = block + 1;
    }

    StripLink& link_;
    Rows rows_;
    Tile next_;
    int coming_ = 0;  ///< blocks of which the last is in next_
  };

  Memory& link_memory_;
  const int blocks_before_;
  SolvedBlocks solved_;
};

}  // namespace tessera::kernels::block
