// A triangular solve by a chain of thread blocks that pass on solved rows: L X = alpha B for a strip of right-hand
// sides, L lower triangular with any number of rows. With few right-hand sides a solve is one sequential chain over the
// blocks of 16 rows. Separate launches for the products between leaves would lengthen it.
//
// Each link of the chain is a thread block that solves one leaf (trsm_strip.hpp). Before that its warps subtract the
// contributions of earlier links, block by block as soon as these are solved (left-looking). They wait for marks in
// global memory. A link lengthens the chain by the time that its last block takes through global memory.
//
// A link waits only for links before it. A kernel numbers its links in the order in which thread blocks begin. Then not
// all of them need be on the device at a time: the first link that has not ended always runs.
//
// Arithmetic: the products with all earlier blocks are summed in order, and the sum is subtracted at once. The rest is
// as in trsm_strip.hpp, and so is the error bound.
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
  /// Several blocks of L are loaded ahead, so that the chain does not wait for L. In double complex registers hold one
  /// block ahead, which is early enough.
  using Factors = std::conditional_t<sizeof(typename Shape::E) < 16, typename Solver::template FactorRing<4>,
                                     typename Solver::FactorStream>;

 public:
  /// Shared memory: that of a leaf, and for each warp the block of X that it subtracts, and blocks of L.
  struct Memory {
    StripMemory<Shape> leaf;
    typename Shape::R taken[Shape::warps][Shape::parts][rows_per_block * Shape::stride];
    typename Factors::Memory factors[Shape::warps];
  };

  /// @param of_link system_of_link()
  /// @param first_column the strip's first column
  /// @param solved the strip's marks, for all blocks of the triangle
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

    /// Also loads the block after k in advance, if it is already solved.
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
    int coming_ = 0;  ///< next_ holds block coming_ - 1
  };

  Memory& link_memory_;
  const int blocks_before_;
  SolvedBlocks solved_;
};

}  // namespace tessera::kernels::block
