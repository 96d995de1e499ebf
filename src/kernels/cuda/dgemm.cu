#include "kernels/cuda/dgemm.hpp"

#include <cuda.h>

#include <array>
#include <cstdint>
#include <optional>

#include "device/cuda/cuda_context.hpp"
#include "kernels/block/dgemm_fragments.hpp"
#include "kernels/plan/dgemm_choice.hpp"

// Order within a thread block. A stage of the sum lies in one of three slots of shared memory, each with two barriers:
//   full   one arrival, by the fetching thread, and all bytes of the stage. The barrier's n-th phase is the slot's n-th
//          stage. The multiplying warps wait for parity 0 first.
//   empty  eight arrivals: each multiplying warp arrives when the stage's last operands are in its registers. The
//          fetching thread waits from the slot's second stage on, for parity 0 first.
// The fetching thread may end while copies are in flight: the multiplying warps wait for every stage. Their loads after
// the last stage come from a slot without copies in flight, and the values are not used. A load that has returned
// precedes the copy that overwrites its source, because the thread that submits the copy has observed the arrival.
namespace tessera::kernels::cuda {
namespace {

using block::dgemm_chunk;
using block::dgemm_chunk_bytes;
using block::DgemmFragments;
using plan::dgemm_block_side;

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "for sm_90a only: code for other GPUs would be empty"
#endif

// The parameters of the kernel for its one architecture. They are compiled in, and so are no part of a device profile.
constexpr int block_side = dgemm_block_side;
constexpr int chunk = dgemm_chunk;
constexpr int chunk_bytes = dgemm_chunk_bytes;
constexpr int operand_bytes = block_side * chunk * 8;
constexpr int step_bytes = 2 * operand_bytes;  // of a chunk of the sum: A's part, then B's
constexpr int steps = 2;  // of a stage. (With one step per stage the barriers cost 2 % of the time.)
constexpr int stage_bytes = steps * step_bytes;
constexpr int stages = 3;
constexpr int multiplying_warps = 8;  // two columns of four: 64 rows and 32 columns each
// The fetching warp comes with three idle ones, because registers are redistributed among groups of four warps.
constexpr int threads = 32 * (multiplying_warps + 4);
constexpr int alignment = 1024;  // of swizzled memory
constexpr int barriers_offset = stages * stage_bytes;
constexpr int barrier_bytes = 8;
constexpr int shared_bytes = barriers_offset + stages * 2 * barrier_bytes + alignment;
// Blocks that run at the same time are neighbours, so that the L2 cache serves most of their reads.
constexpr int rows_of_neighbours = 8;
// Stages before the end at which C is fetched into L2: 12 microseconds, several times the duration of the fetch.
constexpr int stages_for_c = 6;

// The layout of an operand, relative to the sum. along: a line is 16 sums of one row. across: a line is 16 rows of one
// sum, and the number of rows is a multiple of 16. across_ragged: as across, with any number of rows.
enum class Lie : int { along, across, across_ragged };

struct Product {
  int m, n, k;
  double alpha, beta;
  double* C;
  index_t ldc;
  int block_rows, block_columns;
  Lie a, b;
};

#if defined(__CUDA_ARCH__)

// Barriers in shared memory, by the addresses that the copy engine uses.
__device__ __forceinline__ std::uint32_t shared_address(const void* memory) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
}
__device__ __forceinline__ void make_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void arrive_and_expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(std::uint32_t barrier, int phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}

__device__ __forceinline__ void fetch(std::uint32_t to, const CUtensorMap& map, int x, int y, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void fetch(std::uint32_t to, const CUtensorMap& map, int x, int y, int z,
                                      std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
          "r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}
// Fetches 16 rows (of B: columns) from `first` on, of 16 sums from `sum` on. Elements outside the operand become zero.
__device__ __forceinline__ void fetch_operand(std::uint32_t to, const CUtensorMap& map, Lie lie, int first, int sum,
                                              std::uint32_t barrier) {
  if (lie == Lie::along) {
    fetch(to, map, sum, first, barrier);
  } else if (lie == Lie::across) {
    fetch(to, map, 0, sum, first / chunk, barrier);
  } else {
    for (int i = 0; i < block_side / chunk; ++i)
      fetch(to + static_cast<std::uint32_t>(i * chunk_bytes), map, first + i * chunk, sum, barrier);
  }
}

// `volatile` keeps the first stage of the compiler from reordering these loads and the products. Its second stage
// orders them by their registers.
__device__ __forceinline__ double load_one(std::uint32_t address) {
  double value;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(value) : "r"(address));
  return value;
}
__device__ __forceinline__ void load_two(std::uint32_t address, double& first, double& second) {
  asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(first), "=d"(second) : "r"(address));
}
__device__ __forceinline__ void multiply_add(double (&c)[4], const double (&a)[8], const double (&b)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
      "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
        "d"(b[2]), "d"(b[3]));
}

struct Slots {
  std::uint32_t begin, barriers;
  __device__ std::uint32_t slot(int s) const { return begin + static_cast<std::uint32_t>(s * stage_bytes); }
  __device__ std::uint32_t full(int s) const { return barriers + static_cast<std::uint32_t>(2 * s * barrier_bytes); }
  __device__ std::uint32_t empty(int s) const { return full(s) + barrier_bytes; }
};

// Called by one thread.
__device__ __forceinline__ void fetch_stages(const CUtensorMap& map_a, const CUtensorMap& map_b, const Product& p,
                                             int m0, int n0, const Slots& slots, int count) {
  int s = 0, phase = 1;
  for (int i = 0; i < count; ++i) {
    if (i >= stages) wait(slots.empty(s), phase);
    arrive_and_expect(slots.full(s), stage_bytes);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const std::uint32_t to = slots.slot(s) + static_cast<std::uint32_t>(step * step_bytes);
      const int sum = (i * steps + step) * chunk;
      fetch_operand(to, map_a, p.a, m0, sum, slots.full(s));
      fetch_operand(to + operand_bytes, map_b, p.b, n0, sum, slots.full(s));
    }
    if (++s == stages) {
      s = 0;
      phase ^= 1;
    }
  }
}

// Fetches the columns of the block's part of C, one element every 128 bytes. (If a column does not begin with a cache
// line, its last line is not fetched early.)
__device__ __forceinline__ void fetch_c_into_l2(const Product& p, int m0, int n0) {
  constexpr int lines = block_side * 8 / 128;
  // Runs once per block, so unrolling is not worth its registers.
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < block_side * lines; i += 32 * multiplying_warps) {
    const int column = n0 + i / lines, row = m0 + i % lines * 16;
    if (column < p.n && row < p.m) asm volatile("prefetch.global.L2 [%0];" ::"l"(p.C + column * p.ldc + row));
  }
}

// A warp's elements of C: four chunks of rows by four fragments of eight columns.
using Accumulators = double[4][4][4];

/// The operands of a warp's products: where those of the current stage are in shared memory, and those in registers.
template <class F>
struct WarpOperands {
  std::uint32_t at_a[2], at_b[2];
  double a[4][8], b[2][4];

  __device__ __forceinline__ void begin(const Slots& slots, int warp_row, int warp_column) {
    const typename F::Lane lane = F::lane_of(static_cast<int>(threadIdx.x) % 32);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      at_a[i] = slots.begin + static_cast<std::uint32_t>(warp_row * 4 * chunk_bytes + F::start_in_a(lane, i));
      at_b[i] = slots.begin +
                static_cast<std::uint32_t>(operand_bytes + warp_column * 2 * chunk_bytes + F::start_in_b(lane, i));
    }
  }
  __device__ __forceinline__ void advance(std::uint32_t bytes) {
#pragma unroll
    for (int start = 0; start < 2; ++start) {
      at_a[start] += bytes;
      at_b[start] += bytes;
    }
  }
  __device__ __forceinline__ void load_a(int row, int step) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const typename F::Way way = F::way_in_a(j, h);
        const std::uint32_t address = (at_a[way.start] ^ static_cast<std::uint32_t>(way.flip)) +
                                      static_cast<std::uint32_t>(way.shift + row * chunk_bytes + step * step_bytes);
        if (!F::pairs_of_a) {
          a[row][2 * j + h] = load_one(address);
        } else if (h == 0) {
          load_two(address, a[row][2 * j], a[row][2 * j + 1]);
        }
      }
    }
  }
  __device__ __forceinline__ void load_b(int fragment, int step) {
    double(&to)[4] = b[fragment % 2];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const typename F::Way way = F::way_in_b(j, fragment % 2);
      const std::uint32_t address =
          (at_b[way.start] ^ static_cast<std::uint32_t>(way.flip)) +
          static_cast<std::uint32_t>(way.shift + fragment / 2 * chunk_bytes + step * step_bytes);
      if (!F::pairs_of_b) {
        to[j] = load_one(address);
      } else if (j % 2 == 0) {
        load_two(address, to[j], to[j + 1]);
      }
    }
  }
};

template <class F>
__device__ __forceinline__ void multiply_stages(Accumulators& c, const Product& p, int m0, int n0, int warp_row,
                                                int warp_column, const Slots& slots, int count) {
  WarpOperands<F> operands;
  operands.begin(slots, warp_row, warp_column);
  // Operands are loaded as soon as the products that read their registers have been submitted. Those of the next stage
  // are loaded among the last products of this one. a[3] is loaded one fragment later than the rest, because it is read
  // last.
  wait(slots.full(0), 0);
#pragma unroll
  for (int row = 0; row < 3; ++row) operands.load_a(row, 0);
  operands.load_b(0, 0);
  int s = 0, phase = 0;
  for (int i = 0; i < count; ++i) {
    if (i == count - stages_for_c && p.beta != 0) fetch_c_into_l2(p, m0, n0);
    const std::uint32_t empty = slots.empty(s);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int fragment = 0; fragment < 4; ++fragment) {
        const bool last = step == steps - 1 && fragment == 3;
        if (last) {
          std::uint32_t advance = stage_bytes;
          if (++s == stages) {
            s = 0;
            phase ^= 1;
            advance -= stages * stage_bytes;
          }
          operands.advance(advance);
          // After the last stage these loads read old elements, which are not used.
          if (i + 1 < count) wait(slots.full(s), phase);
        }
        const int next = fragment == 3 ? (step + 1) % steps : step;
#pragma unroll
        for (int row = 0; row < 4; ++row) {
          multiply_add(c[row][fragment], operands.a[row], operands.b[fragment % 2]);
          if (row == 0) {
            operands.load_b((fragment + 1) % 4, next);
            if (last) {
              // This product used the last operands of the stage, so they are in registers.
              __syncwarp();
              if (threadIdx.x % 32 == 0) arrive(empty);
            }
            if (fragment == 0) operands.load_a(3, step);
          } else if (fragment == 3) {
            operands.load_a(row - 1, next);
          }
        }
      }
    }
  }
}

// @tparam reads_c whether beta is not 0
template <class F, bool reads_c>
__device__ __forceinline__ void write_result(const Accumulators& c, const Product& p, int m0, int n0, int warp_row,
                                             int warp_column) {
  const typename F::Lane lane = F::lane_of(static_cast<int>(threadIdx.x) % 32);
  const int first_row = m0 + 64 * warp_row + F::row(lane.g, 0);  // and the next row, in each of four chunks
  const auto column_of = [&](int fragment, int e) {
    return n0 + 32 * warp_column + chunk * (fragment / 2) + F::column(2 * lane.t + e, fragment % 2);
  };
  const bool in_pairs = p.ldc % 2 == 0 && reinterpret_cast<std::uintptr_t>(p.C) % 16 == 0;
  if (in_pairs && m0 + block_side <= p.m && n0 + block_side <= p.n) {
#pragma unroll
    for (int fragment = 0; fragment < 4; ++fragment) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        double2* const elements = reinterpret_cast<double2*>(p.C + column_of(fragment, e) * p.ldc + first_row);
        double2 old[4];
#pragma unroll
        for (int row = 0; row < 4; ++row) {
          if (reads_c) old[row] = elements[row * chunk / 2];
        }
#pragma unroll
        for (int row = 0; row < 4; ++row) {
          double2 value{p.alpha * c[row][fragment][e], p.alpha * c[row][fragment][2 + e]};
          if (reads_c) {
            value.x += p.beta * old[row].x;
            value.y += p.beta * old[row].y;
          }
          elements[row * chunk / 2] = value;
        }
      }
    }
    return;
  }
#pragma unroll
  for (int fragment = 0; fragment < 4; ++fragment) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int column = column_of(fragment, e);
      if (column >= p.n) continue;
      double* const elements = p.C + column * p.ldc;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int row = first_row + chunk * (i / 2) + i % 2;
        if (row >= p.m) continue;
        const double value = p.alpha * c[i / 2][fragment][2 * (i % 2) + e];
        elements[row] = reads_c ? value + p.beta * elements[row] : value;
      }
    }
  }
}

#endif

// Computes one block of C per thread block, in columns of blocks of `rows_of_neighbours`.
template <bool transposed_a, bool transposed_b>
__global__ void __launch_bounds__(threads, 1) dgemm_blocks(const __grid_constant__ CUtensorMap map_a,
                                                           const __grid_constant__ CUtensorMap map_b, const Product p) {
#if defined(__CUDA_ARCH__)
  extern __shared__ unsigned char memory[];
  const std::uint32_t begin = (shared_address(memory) + alignment - 1) / alignment * alignment;
  const Slots slots{begin, begin + barriers_offset};
  const int band_blocks = rows_of_neighbours * p.block_columns;
  const int band = static_cast<int>(blockIdx.x) / band_blocks;
  const int height = min(rows_of_neighbours, p.block_rows - band * rows_of_neighbours);
  const int in_band = static_cast<int>(blockIdx.x) - band * band_blocks;
  const int m0 = (band * rows_of_neighbours + in_band % height) * block_side;
  const int n0 = in_band / height * block_side;
  const int count = (p.k + steps * chunk - 1) / (steps * chunk);
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      make_barrier(slots.full(s), 1);
      make_barrier(slots.empty(s), multiplying_warps);
    }
    // Makes the initialised barriers visible to the copy engine.
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp >= multiplying_warps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 32 * multiplying_warps) fetch_stages(map_a, map_b, p, m0, n0, slots, count);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    using F = DgemmFragments<transposed_a, transposed_b>;
    Accumulators c = {};
    multiply_stages<F>(c, p, m0, n0, warp % 2, warp / 2, slots, count);
    if (p.beta != 0) {
      write_result<F, true>(c, p, m0, n0, warp % 2, warp / 2);
    } else {
      write_result<F, false>(c, p, m0, n0, warp % 2, warp / 2);
    }
  }
#endif
}

using Kernel = void (*)(CUtensorMap, CUtensorMap, Product);
// The index is 2 * (A is transposed) + (B is transposed).
constexpr std::array<Kernel, 4> kernels = {dgemm_blocks<false, false>, dgemm_blocks<false, true>,
                                           dgemm_blocks<true, false>, dgemm_blocks<true, true>};

// @param rows rows of op(A), or columns of op(B)
bool describe(CUtensorMap& map, Lie lie, const void* matrix, index_t rows, index_t sums, index_t ld) {
  const auto whole = [](index_t value) { return static_cast<cuuint64_t>(value); };
  const cuuint64_t ld_bytes = whole(ld) * sizeof(double);
  using device::cuda::describe_tensor;
  switch (lie) {
    case Lie::along:
      return describe_tensor<2>(map, matrix, {whole(sums), whole(rows)}, {ld_bytes}, {chunk, block_side});
    case Lie::across:
      // The third dimension has a shorter stride than the second: a group of 16 rows follows the group before it.
      return describe_tensor<3>(map, matrix, {chunk, whole(sums), whole(rows / chunk)},
                                {ld_bytes, chunk * sizeof(double)}, {chunk, chunk, block_side / chunk});
    case Lie::across_ragged:
      return describe_tensor<2>(map, matrix, {whole(rows), whole(sums)}, {ld_bytes}, {chunk, chunk});
  }
  return false;
}

// @param along whether the sum runs down the stored columns
Lie lie_of(bool along, index_t rows) {
  if (along) return Lie::along;
  return rows % chunk == 0 ? Lie::across : Lie::across_ragged;
}

}  // namespace

cudaError_t HopperDgemm::load(int ordinal, const device::ProductCrossover& crossover) {
  using device::cuda::attribute;
  if (attribute(ordinal, cudaDevAttrComputeCapabilityMajor) != 9 ||
      attribute(ordinal, cudaDevAttrComputeCapabilityMinor) != 0 || !device::cuda::can_describe_tensors())
    return cudaSuccess;
  for (const Kernel kernel : kernels) {
    const cudaError_t error = device::cuda::load_kernel(reinterpret_cast<const void*>(kernel), shared_bytes);
    if (error != cudaSuccess) return error;
  }
  crossover_ = crossover;
  multiprocessors_ = attribute(ordinal, cudaDevAttrMultiProcessorCount);
  return cudaSuccess;
}

bool HopperDgemm::takes(const Level3& call) const {
  return multiprocessors_ > 0 && plan::is_for_dgemm_kernel(call, multiprocessors_, crossover_);
}

std::optional<cudaError_t> HopperDgemm::submit_if_taken(const Level3& call, cudaStream_t stream) const {
  if (!takes(call)) return std::nullopt;
  const cudaError_t error = submit(call, stream);
  return error == cudaErrorNotSupported ? std::nullopt : std::optional(error);
}

cudaError_t HopperDgemm::submit(const Level3& call, cudaStream_t stream) const {
  const bool transposed_a = call.op_a != Op::no_trans, transposed_b = call.op_b != Op::no_trans;
  const auto blocks = [](index_t elements) { return static_cast<int>((elements + block_side - 1) / block_side); };
  Product product{.m = static_cast<int>(call.m),
                  .n = static_cast<int>(call.n),
                  .k = static_cast<int>(call.k),
                  .alpha = call.alpha.real(),
                  .beta = call.beta.real(),
                  .C = static_cast<double*>(call.C),
                  .ldc = call.ldc,
                  .block_rows = blocks(call.m),
                  .block_columns = blocks(call.n),
                  .a = lie_of(transposed_a, call.m),
                  .b = lie_of(!transposed_b, call.n)};
  CUtensorMap map_a, map_b;
  if (!describe(map_a, product.a, call.A, call.m, call.k, call.lda) ||
      !describe(map_b, product.b, call.B, call.n, call.k, call.ldb))
    return cudaErrorNotSupported;
  void* arguments[] = {&map_a, &map_b, &product};
  const Kernel kernel = kernels[static_cast<std::size_t>(2 * transposed_a + transposed_b)];
  const auto grid = static_cast<unsigned>(product.block_rows) * static_cast<unsigned>(product.block_columns);
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(grid), dim3(threads), arguments, shared_bytes,
                          stream);
}

}  // namespace tessera::kernels::cuda
