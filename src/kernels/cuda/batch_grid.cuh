// Shared by the kernels of batches: grids of (thread blocks of a problem, problems), and checks of problems.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "core/scalar.hpp"
#include "kernels/block/device_code.hpp"
#include "kernels/cuda/gpu_warps.hpp"
#include "kernels/level3_batch.hpp"

namespace tessera::kernels::cuda::detail {

/// Where bad arguments of problems are reported, if the caller wants to know.
struct Complaints {
  void* info = nullptr;
  bool is_wide = false;
  NumberOfEach left_out = {};  ///< nonzero for problems that an earlier step has ended

  /// @return whether the problem is to be computed
  /// @param tells whether this thread writes the report
  template <class Batch>
  __device__ bool is_good(const Batch& batch, const typename Batch::Problem& problem, index_t number,
                          bool tells) const {
    if (left_out.of_each != nullptr && left_out.of(number) != 0) return false;
    if (info == nullptr) return true;
    const int bad = bad_argument(batch.form, batch.positions, problem);
    if (tells) {
      if (is_wide)
        static_cast<std::int64_t*>(info)[number] = -bad;
      else
        static_cast<int*>(info)[number] = -bad;
    }
    return bad == 0;
  }
};

/// The threads of a thread block that share a problem: all of them, or one of several warps with a problem each.
/// Starting a thread block takes a multiprocessor some hundred cycles, however little work it has.
template <int problems_of_block>
struct Team {
  static constexpr bool is_warp = problems_of_block > 1;
  using Machine = std::conditional_t<is_warp, GpuWarp, MeetingWarps>;

  /// The team's number in the thread block.
  __device__ static int number() { return is_warp ? static_cast<int>(threadIdx.x) / 32 : 0; }
  __device__ static int thread() {
    return is_warp ? static_cast<int>(threadIdx.x) % 32 : static_cast<int>(threadIdx.x);
  }
  __device__ static void meet() {
    if constexpr (is_warp)
      __syncwarp();
    else
      __syncthreads();
  }
  /// The team's first problem in a grid of grid_of(), and the distance to its next one.
  __device__ static index_t first_problem() {
    const index_t block = blockIdx.y + static_cast<index_t>(blockIdx.z) * gridDim.y;
    return block * problems_of_block + number();
  }
  __device__ static index_t next_problem() { return static_cast<index_t>(gridDim.y) * gridDim.z * problems_of_block; }
};

/// Blocks of one problem follow each other along x, and share the operands that they read. Problems lie along y and z,
/// which reach to 65535 each.
inline dim3 grid_of(index_t blocks_of_problem, index_t problems, int problems_of_block) {
  problems = (problems + problems_of_block - 1) / problems_of_block;
  constexpr index_t most = 65535;
  const index_t layers = (problems + most - 1) / most, along_z = layers < most ? layers : most;
  const index_t of_layer = (problems + along_z - 1) / along_z;
  return {static_cast<unsigned>(blocks_of_problem), static_cast<unsigned>(of_layer < most ? of_layer : most),
          static_cast<unsigned>(along_z)};
}

/// Loads the words that describe a problem, each by another lane of a warp, so that all loads overlap.
/// @param to in shared memory; all of the warp must meet before it is read
template <class Batch>
__device__ void load_words(const Batch& batch, index_t problem, index_t (&to)[Batch::words]) {
  const unsigned lane = threadIdx.x % 32;
  if (lane >= Batch::words) return;
  const WordOfEach& word = batch.word[lane];
  const auto* const array = static_cast<const char*>(word.of_each);
  const bool loads = array != nullptr;
  // One asm statement: no lane waits for its number before another lane issues its load.
  int narrow = 0;
  index_t wide = word.first + problem * word.distance;
  asm volatile(
      "{\n.reg .pred narrow, wide;\n"
      "setp.ne.s32 narrow, %2, 0;\nsetp.ne.s32 wide, %3, 0;\n"
      "@narrow ld.global.s32 %0, [%4];\n@wide ld.global.s64 %1, [%5];\n}"
      : "+r"(narrow), "+l"(wide)
      : "r"(static_cast<int>(loads && !word.is_wide)), "r"(static_cast<int>(loads && word.is_wide)),
        "l"(array + problem * sizeof(int)), "l"(array + problem * sizeof(index_t))
      : "memory");
  to[lane] = loads && !word.is_wide ? narrow : wide;
}

}  // namespace tessera::kernels::cuda::detail
