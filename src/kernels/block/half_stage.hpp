// How the threads of a block bring an operand of a product of 16-bit numbers (half_product.hpp) to shared memory: so many
// of its lines, some steps of k at a time.
//
// What lies side by side in global memory is a run, and lies side by side in shared memory, too: of lines, or of steps.
// Real numbers come by asynchronous copies of 16 bytes where addresses allow that. All else comes in two stages, through
// registers, which are filled before the arithmetic of a stage and emptied after it; there complex numbers are parted into
// a plane of real and one of imaginary parts, and conjugated. Source: Abdelfattah, Tomov, Dongarra, "Matrix multiplication
// on batches of small matrices in half and half-complex precisions", sections 5.2 and 5.3.
//
// Tensor cores are fed by loads of 8 x 8 numbers, eight of one run in each of eight runs. The eights of a run are
// exchanged by the run's number, so that such a load finds them in different banks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/block/device_code.hpp"
#include "kernels/block/half_product.hpp"

namespace tessera::kernels::block {

/// Numbers that are loaded and stored together, 16 bytes.
inline constexpr int numbers_of_chunk = 8;

/// Where a number of a run lies in a plane whose runs are so long.
template <int length>
struct HalfRuns {
  static constexpr int chunks = length / numbers_of_chunk;
  static_assert(length % 16 == 0 && (length & (length - 1)) == 0);
  static TESSERA_HOST_DEVICE constexpr int exchange(int run) {
    if (chunks >= 8) return run & 7;
    return chunks == 4 ? run >> 1 & 3 : run >> 2 & 1;
  }
  static TESSERA_HOST_DEVICE constexpr int offset(int run, int place) {
    return run * length + ((place / numbers_of_chunk) ^ exchange(run)) * numbers_of_chunk + place % numbers_of_chunk;
  }
};

namespace detail {
/// An integer of that size, of which the compiler does not lose the alignment.
template <std::size_t bytes>
struct IntegerOf;
template <>
struct IntegerOf<2> {
  using Type = std::uint16_t;
};
template <>
struct IntegerOf<4> {
  using Type = std::uint32_t;
};
}  // namespace detail

/// Values as few loads or stores have them, of 16 bytes at most. @pre aligned as their type is
template <class Value>
TESSERA_DEVICE Value loaded(const void* from) {
  Value value;
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Value) <= 4) {
    const auto bits = *static_cast<const typename detail::IntegerOf<sizeof(Value)>::Type*>(from);
    memcpy(&value, &bits, sizeof(Value));
    return value;
  }
#endif
  memcpy(&value, __builtin_assume_aligned(from, alignof(Value)), sizeof(Value));
  return value;
}
template <class Value>
TESSERA_DEVICE void stored(void* to, const Value& value) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Value) <= 4) {
    typename detail::IntegerOf<sizeof(Value)>::Type bits;
    memcpy(&bits, &value, sizeof(Value));
    *static_cast<typename detail::IntegerOf<sizeof(Value)>::Type*>(to) = bits;
    return;
  }
#endif
  memcpy(__builtin_assume_aligned(to, alignof(Value)), &value, sizeof(Value));
}

struct alignas(8) TwoWords {
  std::uint32_t word[2];
};
struct alignas(16) FourWords {
  std::uint32_t word[4];
};

/// The lower halves of two words, and their upper ones.
TESSERA_DEVICE std::uint32_t lower_halves(std::uint32_t first, std::uint32_t second) {
  return (first & 0xffffU) | second << 16;
}
TESSERA_DEVICE std::uint32_t upper_halves(std::uint32_t first, std::uint32_t second) {
  return first >> 16 | (second & 0xffff0000U);
}
inline constexpr std::uint32_t both_signs = 0x80008000U;

/// Shape: of the block (half_block.hpp).
template <class Shape, class Machine, int lines>
class HalfStageCopy {
  using E = typename Shape::E;
  using R = typename E::R;
  using Operand = HalfOperand<E>;
  static constexpr int parts = E::parts, depth = Shape::depth, threads = Shape::threads;
  static constexpr int elements = lines * depth;
  static_assert((threads & (threads - 1)) == 0);
  static constexpr int of_sixteen_bytes = 16 / static_cast<int>(sizeof(E));
  template <int count>
  static constexpr int turns = (elements / count + threads - 1) / threads;  ///< units of so many for each thread
  /// What a thread keeps in registers: complex elements are words, real ones share them.
  static constexpr int words = parts == 2                      ? of_sixteen_bytes * turns<of_sixteen_bytes>
                               : turns<2> > (turns<1> + 1) / 2 ? turns<2>
                                                               : (turns<1> + 1) / 2;

 public:
  using Plane = R[elements];

  /// @param from in shared memory: in registers it would take those of the sums
  TESSERA_DEVICE HalfStageCopy(Machine machine, const Operand& from, index_t first_line, int lines_there)
      : machine_(machine), operand_(from), first_line_(first_line), lines_there_(lines_there) {
    const index_t distance = from.lines_are_adjacent ? from.next_step : from.next_line;
    const auto bits = reinterpret_cast<std::uintptr_t>(from.at + first_line * from.next_line) |
                      static_cast<std::uintptr_t>(distance) * sizeof(E);
    unit_ = bits % 16 == 0 ? Unit::sixteen_bytes : parts == 1 && bits % 4 == 0 ? Unit::two : Unit::one;
  }

  /// Asks for steps of the operand, the first one counted from its begin: they are on their way to the stage, or to
  /// registers.
  TESSERA_DEVICE void fetch(Plane (&to)[parts], index_t first_step, int steps_there) {
    const E* const from =
        machine_.in_global(operand_.at) + first_line_ * operand_.next_line + first_step * operand_.next_step;
    if (operand_.lines_are_adjacent)
      fetch_runs<true>(to, from, operand_.next_step, steps_there);
    else
      fetch_runs<false>(to, from, operand_.next_line, steps_there);
  }

  /// Brings what is in registers to the stage of the last fetch().
  TESSERA_DEVICE void deposit(Plane (&to)[parts]) const {
    if (operand_.lines_are_adjacent)
      deposit_runs<true>(to);
    else
      deposit_runs<false>(to);
  }

 private:
  enum class Unit : unsigned char { sixteen_bytes, two, one };  // what is loaded at a time
  template <bool lines_are_adjacent>
  static constexpr int length = lines_are_adjacent ? lines : depth;

  /// f(turn, run, place) for the thread's units of so many elements. Threads and lengths are powers of two.
  template <int of_run, int count, class F>
  TESSERA_DEVICE void for_each_unit(F f) const {
    constexpr int units = elements / count, of_length = of_run / count;
    // Made anew: places of all units, computed ahead of all stages, would take more registers than there are.
    const int thread = machine_.made_anew(machine_.warp() * 32 + machine_.lane());
    if (units < threads && thread >= units) return;
    const int run = thread / of_length, place = thread % of_length * count;
    TESSERA_UNROLL
    for (int turn = 0; turn < turns<count>; ++turn) {
      if constexpr (of_length <= threads) {
        f(turn, run + turn * (threads / of_length), place);
      } else {
        constexpr int turns_of_run = of_length / threads;
        f(turn, turn / turns_of_run, place + turn % turns_of_run * threads * count);
      }
    }
  }

  /// Of a unit, elements that the operand has; below 0: its line is not there, and nothing has to be.
  template <bool lines_are_adjacent, int count>
  TESSERA_DEVICE int there(int run, int place, int steps_there) const {
    const int runs = lines_are_adjacent ? steps_there : lines_there_;
    const int left = (lines_are_adjacent ? lines_there_ : steps_there) - place;
    if (lines_are_adjacent ? left <= 0 : run >= runs) return -1;
    if (run >= runs || left <= 0) return 0;
    return left < count ? left : count;
  }
  template <bool lines_are_adjacent>
  TESSERA_DEVICE void fetch_runs(Plane (&to)[parts], const E* begin, index_t next_run, int steps_there) {
    constexpr int of_run = length<lines_are_adjacent>;
    if (unit_ == Unit::sixteen_bytes) {
      for_each_unit<of_run, of_sixteen_bytes>([&](int turn, int run, int place) {
        const int count = there<lines_are_adjacent, of_sixteen_bytes>(run, place, steps_there);
        const E* const from = begin + run * next_run + place;
        if constexpr (parts == 1) {
          if (count >= 0)
            machine_.template copy_async<of_sixteen_bytes>(&to[0][HalfRuns<of_run>::offset(run, place)],
                                                           reinterpret_cast<const R*>(from), count);
        } else {
          hold_four(turn, from, count);
        }
      });
    } else if (parts == 1 && unit_ == Unit::two) {
      if constexpr (parts == 1) {
        for_each_unit<of_run, 2>([&](int turn, int run, int place) {
          const int count = there<lines_are_adjacent, 2>(run, place, steps_there);
          const E* const from = begin + run * next_run + place;
          held_[turn] = count == 2 ? loaded<std::uint32_t>(from) : count == 1 ? loaded<std::uint16_t>(from) : 0;
        });
      }
    } else {
      for_each_unit<of_run, 1>([&](int turn, int run, int place) {
        const bool is_there = there<lines_are_adjacent, 1>(run, place, steps_there) > 0;
        hold_one(turn, begin + run * next_run + place, is_there);
      });
    }
  }

  TESSERA_DEVICE void hold_four(int turn, const E* from, int count) {
    FourWords four{};
    if (count == 4) {
      four = loaded<FourWords>(from);
    } else {
      TESSERA_UNROLL
      for (int i = 0; i < 3; ++i) {
        if (i < count) four.word[i] = loaded<std::uint32_t>(from + i);
      }
    }
    TESSERA_UNROLL
    for (int i = 0; i < 4; ++i) held_[(4 * turn + i) % words] = four.word[i];
  }
  TESSERA_DEVICE void hold_one(int turn, const E* from, bool is_there) {
    if constexpr (parts == 2) {
      held_[turn] = is_there ? loaded<std::uint32_t>(from) : 0;
    } else {
      const std::uint32_t value = is_there ? loaded<std::uint16_t>(from) : 0;
      if (turn % 2 == 0)
        held_[turn / 2] = value;
      else
        held_[turn / 2] |= value << 16;
    }
  }

  template <bool lines_are_adjacent>
  TESSERA_DEVICE void deposit_runs(Plane (&to)[parts]) const {
    constexpr int of_run = length<lines_are_adjacent>;
    using Runs = HalfRuns<of_run>;
    const std::uint32_t signs = operand_.conjugate ? both_signs : 0;  // of imaginary parts
    if (unit_ == Unit::sixteen_bytes) {
      if constexpr (parts == 2) {
        for_each_unit<of_run, of_sixteen_bytes>([&](int turn, int run, int place) {
          const std::uint32_t* const four = held_ + 4 * turn;
          const int at = Runs::offset(run, place);
          stored(&to[0][at], TwoWords{{lower_halves(four[0], four[1]), lower_halves(four[2], four[3])}});
          stored(&to[1][at],
                 TwoWords{{upper_halves(four[0], four[1]) ^ signs, upper_halves(four[2], four[3]) ^ signs}});
        });
      }
    } else if (parts == 1 && unit_ == Unit::two) {
      for_each_unit<of_run, 2>(
          [&](int turn, int run, int place) { stored(&to[0][Runs::offset(run, place)], held_[turn % words]); });
    } else {
      for_each_unit<of_run, 1>([&](int turn, int run, int place) {
        const int at = Runs::offset(run, place);
        if constexpr (parts == 2) {
          stored(&to[0][at], static_cast<std::uint16_t>(held_[turn]));
          stored(&to[1][at], static_cast<std::uint16_t>((held_[turn] ^ signs) >> 16));
        } else {
          stored(&to[0][at], static_cast<std::uint16_t>(held_[turn / 2] >> (turn % 2 * 16)));
        }
      });
    }
  }

  Machine machine_;
  const Operand& operand_;
  const index_t first_line_;
  const int lines_there_;
  Unit unit_;
  std::uint32_t held_[words];
};

}  // namespace tessera::kernels::block
