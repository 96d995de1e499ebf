// Streams of blocks of 16 x 16 elements of a triangular factor L, from global memory to the registers of a warp. The
// warp has 16 rows of a strip (strip.hpp).
#pragma once

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"
#include "kernels/block/triangular_system.hpp"

namespace tessera::kernels::block {

inline constexpr int rows_per_block = 16;  ///< rows of the tensor cores' instruction

/// 16 x 16 elements of L. Thread 4 g + q of a warp holds those of rows g and g + 8, columns q, q + 4, q + 8 and q + 12.
template <class E>
struct BlockOfFactor {
  typename E::Part part[E::part_count][2][4];  ///< [row tile][column tile]

  TESSERA_DEVICE void set(int t, int s, const E& value) {
    TESSERA_UNROLL
    for (int p = 0; p < E::part_count; ++p) part[p][t][s] = value.part[p];
  }
};

/// The addresses of a thread's elements in a block row of L. Rows beyond the end of L read as zeros.
template <class E>
class BlockRowOfFactor {
 protected:
  /// @param first the first block; negative ones are left of the system
  TESSERA_DEVICE BlockRowOfFactor(const TriangularSystem<E>& system, int block, int first, int lane)
      : system_(system), first_(first), block_(block) {
    const index_t row = block * rows_per_block + lane / 4;
    has_row_[0] = row < system.order;
    has_row_[1] = row + 8 < system.order;
    const index_t column = static_cast<index_t>(first) * rows_per_block + lane % 4;
    at_ = system.L + row * system.l_row + column * system.l_col;
  }

  const TriangularSystem<E>& system_;
  const int first_, block_;
  bool has_row_[2];
  const E* at_;  ///< the thread's elements of the next block
};

/// The blocks of a block row of L, up to the diagonal. The next block is loaded while the current one is used. No
/// instruction touches loaded values before their turn: a thread waits at the first use of a loaded value.
template <class E>
class FactorStream : BlockRowOfFactor<E> {
  using Base = BlockRowOfFactor<E>;
  using Base::at_, Base::block_, Base::first_, Base::has_row_, Base::system_;

 public:
  struct Memory {};

  /// Starts loading the first block.
  TESSERA_DEVICE FactorStream(const TriangularSystem<E>& system, int block, int first, int lane)
      : Base(system, block, first, lane) {
    if (block > first) load_next();
  }
  /// Calls use(factor, k) for the blocks first <= k < block, in order.
  template <class Use>
  TESSERA_DEVICE void for_each(Use use) {
    TESSERA_NO_UNROLL
    for (int k = first_; k < block_; ++k) {
      BlockOfFactor<E> factor = next(k);
      use(factor, k);
    }
  }
  /// Block k. @pre blocks first to k - 1 have been taken
  TESSERA_DEVICE BlockOfFactor<E> next(int k) {
    const BlockOfFactor<E> factor = coming_;
    if (k + 1 < block_) load_next();
    return factor;
  }

 private:
  TESSERA_DEVICE void load_next() {
    TESSERA_UNROLL
    for (int s = 0; s < 4; ++s) {
      TESSERA_UNROLL
      for (int t = 0; t < 2; ++t) {
        E value{};
        if (has_row_[t]) value = at_[t * 8 * system_.l_row];
        coming_.set(t, s, value);
      }
      at_ += 4 * system_.l_col;
    }
  }

  BlockOfFactor<E> coming_;
};

/// The same with several blocks in flight, in shared memory. A thread reads only elements there that it has itself
/// copied.
template <class E, class Machine, int depth>
class FactorRing : BlockRowOfFactor<E> {
  using Base = BlockRowOfFactor<E>;
  using Base::at_, Base::block_, Base::first_, Base::has_row_, Base::system_;
  static constexpr int elements = rows_per_block * rows_per_block / 32;  ///< elements of a block per thread

 public:
  struct Memory {
    E block[depth][elements][32];  ///< [][][lane]
  };

  TESSERA_DEVICE FactorRing(const TriangularSystem<E>& system, int block, int first, Memory& memory, Machine machine)
      : Base(system, block, first, machine.lane()), memory_(memory), machine_(machine) {
    for (int ahead = 0; ahead < depth - 1; ++ahead) ask_for(first + ahead);
  }
  /// As FactorStream::for_each().
  template <class Use>
  TESSERA_DEVICE void for_each(Use use) {
    TESSERA_NO_UNROLL
    for (int k = first_; k < block_; ++k) {
      ask_for(k + depth - 1);
      machine_.template await_batches<depth - 1>();
      BlockOfFactor<E> factor;
      for_each_element(k, [&](const E& element, int t, int s) { factor.set(t, s, element); });
      use(factor, k);
    }
  }

 private:
  template <class F>
  TESSERA_DEVICE void for_each_element(int k, F f) const {
    auto& of_block = memory_.block[(k - first_) % depth];
    TESSERA_UNROLL
    for (int s = 0; s < 4; ++s) {
      TESSERA_UNROLL
      for (int t = 0; t < 2; ++t) f(of_block[2 * s + t][machine_.lane()], t, s);
    }
  }
  TESSERA_DEVICE void ask_for(int k) {
    if (k < block_) {
      for_each_element(k, [&](E& to, int t, int s) {
        machine_.template copy_async<1>(&to, at_ + (t * 8 * system_.l_row + s * 4 * system_.l_col),
                                        has_row_[t] ? 1 : 0);
      });
      at_ += rows_per_block * system_.l_col;
    }
    machine_.end_of_batch();
  }

  Memory& memory_;
  Machine machine_;
};

}  // namespace tessera::kernels::block
