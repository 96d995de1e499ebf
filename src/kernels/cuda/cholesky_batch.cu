#include "kernels/cuda/cholesky_batch.hpp"

#include "kernels/block/cholesky_sweep.hpp"
#include "kernels/block/triangular_system.hpp"
#include "kernels/block/trsm_strip.hpp"
#include "kernels/cuda/lapack_grid.cuh"
#include "kernels/plan/lapack_choice.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::ElementOf;
using block::LapackProblem;
using block::LapackProblems;
using block::PartOf;
using block::parts_of;
using detail::FoundLapackProblem;
using detail::launch;
using detail::load;
using detail::update_residents;
using detail::UpdateMemory;
using detail::UpdateShape;
using detail::with_number;

/// The lower triangle of the Hermitian matrix (block/cholesky_block.hpp), from (first, first) on.
template <class E>
struct Triangle {
  E* at;
  index_t row, column;

  __device__ Triangle(const LapackProblem<E>& problem, block::Region stored, index_t first)
      : at(problem.A + first * (problem.lda + 1)),
        row(stored == block::Region::lower ? 1 : problem.lda),
        column(stored == block::Region::lower ? problem.lda : 1) {}
};

// --- in registers ---

template <class Shape, bool is_upper>
__global__ void __launch_bounds__(detail::SmallTeams<Shape::threads>::threads,
                                  detail::SmallTeams<Shape::threads>::residents(sizeof(typename Shape::E) *
                                                                                Shape::rows))
    small_cholesky(const __grid_constant__ LapackProblems<typename Shape::E> problems, index_t first, index_t most) {
  using E = typename Shape::E;
  using Teams = detail::SmallTeams<Shape::threads>;
  using Machine = typename Teams::Machine;
  __shared__ block::CholeskyMemory<Shape> memory[Teams::count];
  extern __shared__ __align__(16) unsigned char bytes[];
  const Machine machine;
  const int team = Teams::number();
  for (index_t number = static_cast<index_t>(blockIdx.x) * Teams::count + team; number < problems.count;
       number += static_cast<index_t>(gridDim.x) * Teams::count) {
    const LapackProblem<E> problem = problems.problem(number);
    const index_t rest = problem.n - first;
    const int bad = first == 0 ? bad_argument(problems, problem) : 0;
    int failed = 0;
    if (bad == 0 && rest > 0 && problem.n <= most && (first == 0 || problems.is_left(number))) {
      E* const corner = problem.A + first * (problem.lda + 1);
      block::CholeskyBlock<Shape, Machine> block(memory[team], machine);
      const int order = static_cast<int>(rest < Shape::rows ? rest : Shape::rows);
      if constexpr (is_upper) {
        auto& triangle = reinterpret_cast<block::UpperTriangle<Shape>*>(bytes)[team];
        block.load_upper(triangle, corner, problem.lda, order);
        failed = block.factor();
        block.store_upper(triangle, corner, problem.lda);
      } else {
        block.load(corner, 1, problem.lda, order);
        failed = block.factor();
        block.store(corner, 1, problem.lda);
      }
    }
    if (machine.thread() == 0 && (first == 0 || failed > 0))
      problems.info.set(number, failed > 0 ? first + failed : -bad);
    machine.meet();  // the next problem reuses the memory
  }
}

template <class Shape>
inline constexpr std::size_t bytes_of_upper = detail::SmallTeams<Shape::threads>::count *
                                              sizeof(block::UpperTriangle<Shape>);

template <Scalar T, std::size_t at>
using SmallShape = block::CholeskyShape<PartOf<T>, parts_of<T>, plan::small_factorizations[at].order,
                                        plan::small_factorizations[at].threads>;

// --- by one thread block ---

template <Scalar T, std::size_t at>
struct SweepSetup {
  using E = ElementOf<T>;
  static constexpr plan::FactorizationSweep sweep = plan::cholesky_sweep(scalar_type_of<T>(), at);
  static constexpr int threads = plan::threads_of(sweep), residents = sweep.blocks.residents;
  using Block = block::GemmShape<PartOf<T>, parts_of<T>, sweep.blocks.rows, sweep.blocks.columns,
                                 sweep.blocks.warps_down, sweep.blocks.warps_across, sweep.blocks.stages>;
  using Sweep = block::CholeskySweep<Block, MeetingWarps>;
  struct alignas(16) Memory {
    typename Sweep::Memory sweep;
    FoundLapackProblem<E> found;
  };
};

template <class Setup>
__global__ void __launch_bounds__(Setup::threads, Setup::residents)
    sweep_cholesky(const __grid_constant__ LapackProblems<typename Setup::E> problems, block::Region stored,
                   index_t first, index_t width) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<typename Setup::Memory*>(bytes);
  for (index_t number = blockIdx.x; number < problems.count; number += gridDim.x) {
    if (threadIdx.x < 32) memory.found.find(problems, number, first == 0);
    __syncthreads();
    const index_t height = memory.found.problem.n - first;
    // After a minor that is not positive nothing remains to be done.
    if (memory.found.is_good && height > 0 && problems.is_left(number)) {
      const Triangle<typename Setup::E> triangle(memory.found.problem, stored, first);
      typename Setup::Sweep sweep(memory.sweep, {});
      const index_t failed =
          sweep.run(triangle.at, triangle.row, triangle.column, height, height < width ? height : width);
      __syncthreads();
      if (threadIdx.x == 0 && failed > 0) problems.info.set(number, first + failed);
    }
    __syncthreads();
  }
}

// --- below a triangle ---

template <Scalar T>
using StripOf = block::StripShape<PartOf<T>, parts_of<T>, plan::cholesky_triangle / block::rows_per_block,
                                  is_complex(scalar_type_of<T>()) ? 8 : 32>;

template <class Shape>
struct StripMemory {
  block::StripMemory<Shape> strip;
  alignas(16) unsigned char system[sizeof(block::TriangularSystem<typename Shape::E>)];
  FoundLapackProblem<typename Shape::E> found;
};

/// Solves X L^H = H below the triangle on the diagonal: for each row of H, a system with the conjugate of L.
template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 3)
    strips_below_triangle(const __grid_constant__ LapackProblems<typename Shape::E> problems, block::Region stored,
                          index_t first) {
  using E = typename Shape::E;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<StripMemory<Shape>*>(bytes);
  auto& system = *reinterpret_cast<block::TriangularSystem<E>*>(memory.system);
  const index_t layer = blockIdx.y + static_cast<index_t>(blockIdx.z) * gridDim.y;
  for (index_t number = layer; number < problems.count; number += static_cast<index_t>(gridDim.y) * gridDim.z) {
    if (threadIdx.x < 32) memory.found.find(problems, number, false);
    __syncthreads();
    const index_t rows = memory.found.problem.n - first - Shape::rows;
    if (memory.found.is_good && rows > 0 && problems.is_left(number)) {
      if (threadIdx.x == 0) {
        const Triangle<E> triangle(memory.found.problem, stored, first);
        E one{};
        one.part[0] = 1;
        system = {.L = triangle.at,
                  .l_row = triangle.row,
                  .l_col = triangle.column,
                  .X = triangle.at + Shape::rows * triangle.row,
                  .x_row = triangle.column,
                  .x_col = triangle.row,
                  .order = Shape::rows,
                  .columns = rows,
                  .alpha = one,
                  .scales = false,
                  .conjugate = true,
                  .unit = false};
      }
      __syncthreads();
      for (index_t row = static_cast<index_t>(blockIdx.x) * Shape::columns; row < rows;
           row += static_cast<index_t>(gridDim.x) * Shape::columns) {
        block::StripSolver<Shape, MeetingWarps>(system, memory.strip, row, {}).run();
        __syncthreads();
      }
    }
    __syncthreads();
  }
}

// --- behind a panel ---

template <class Shape, int residents>
__global__ void __launch_bounds__(Shape::threads, residents)
    update_behind_panel(const __grid_constant__ LapackProblems<typename Shape::E> problems, block::Region stored,
                        index_t first, index_t width) {
  using E = typename Shape::E;
  extern __shared__ __align__(16) unsigned char bytes[];
  const auto make = [&](const LapackProblem<E>& problem, bool is_good, index_t number) {
    const Triangle<E> triangle(problem, stored, first);
    const index_t rest = problem.n - first - width;
    const E* const panel = triangle.at + width * triangle.row;
    auto product = block::product_of_factor<E>(panel, panel, triangle.at + width * (triangle.row + triangle.column),
                                               triangle.row, triangle.column, width);
    product.m = product.n = rest;
    product.does_nothing = !is_good || rest <= 0 || !problems.is_left(number);
    return product;
  };
  detail::update_all<Shape, block::Result::anyhow>(problems, *reinterpret_cast<UpdateMemory<Shape>*>(bytes), make);
}

using SweepClasses = std::make_index_sequence<plan::cholesky_sweep_count>;

}  // namespace

cudaError_t submit_small_cholesky(const LapackBatch& batch, std::size_t size_class, index_t first,
                                  cudaStream_t stream) {
  return dispatch(batch.type, [&]<Scalar T>(T) {
    return detail::with_small_class<T>(size_class, [&]<std::size_t at>() {
      using Shape = SmallShape<T, at>;
      using Teams = detail::SmallTeams<Shape::threads>;
      const dim3 grid = detail::grid_of_problems(block::pieces(batch.count, Teams::count));
      const auto problems = block::lapack_problems<PartOf<T>, parts_of<T>>(batch);
      return batch.uplo == Uplo::upper
                 ? launch(small_cholesky<Shape, true>, grid, Teams::threads, bytes_of_upper<Shape>, stream, problems,
                          first, batch.max_n)
                 : launch(small_cholesky<Shape, false>, grid, Teams::threads, 0, stream, problems, first, batch.max_n);
    });
  });
}

cudaError_t submit_cholesky_sweep(const LapackBatch& batch, std::size_t size_class, index_t first, index_t width,
                                  cudaStream_t stream) {
  return dispatch(batch.type, [&]<Scalar T>(T) {
    return with_number(size_class, SweepClasses(), [&]<std::size_t at>() {
      using Setup = SweepSetup<T, at>;
      return launch(sweep_cholesky<Setup>, detail::grid_of_problems(batch.count), Setup::threads,
                    sizeof(typename Setup::Memory), stream, block::lapack_problems<PartOf<T>, parts_of<T>>(batch),
                    block::region_of(batch.uplo), first, width);
    });
  });
}

cudaError_t submit_cholesky_strips(const LapackBatch& batch, index_t first, index_t most, cudaStream_t stream) {
  return dispatch(batch.type, [&]<Scalar T>(T) {
    using Shape = StripOf<T>;
    return launch(strips_below_triangle<Shape>,
                  detail::grid_of(detail::blocks_for(most, Shape::columns), batch.count, 1), Shape::threads,
                  sizeof(StripMemory<Shape>), stream, block::lapack_problems<PartOf<T>, parts_of<T>>(batch),
                  block::region_of(batch.uplo), first);
  });
}

cudaError_t submit_cholesky_update(const LapackBatch& batch, index_t first, index_t width, index_t most,
                                   cudaStream_t stream) {
  return dispatch(batch.type, [&]<Scalar T>(T) {
    using Shape = UpdateShape<T>;
    const index_t blocks = detail::blocks_of_triangle<Shape::rows, Shape::columns>(most);
    return launch(update_behind_panel<Shape, update_residents<T>>,
                  detail::grid_of(detail::blocks_for(blocks, 1), batch.count, 1), Shape::threads,
                  sizeof(UpdateMemory<Shape>), stream, block::lapack_problems<PartOf<T>, parts_of<T>>(batch),
                  block::region_of(batch.uplo), first, width);
  });
}

cudaError_t load_cholesky_kernels() {
  cudaError_t error = cudaSuccess;
  const auto then = [&](cudaError_t next) {
    if (error == cudaSuccess) error = next;
  };
  for (const ScalarType type : scalar_types) {
    dispatch(type, [&]<Scalar T>(T) {
      detail::for_each_small_class<T>([&]<std::size_t at>() {
        then(load(small_cholesky<SmallShape<T, at>, false>));
        then(load(small_cholesky<SmallShape<T, at>, true>, bytes_of_upper<SmallShape<T, at>>));
      });
      [&]<std::size_t... at>(std::index_sequence<at...>) {
        (then(load(sweep_cholesky<SweepSetup<T, at>>, sizeof(typename SweepSetup<T, at>::Memory))), ...);
      }
      (SweepClasses());
      then(load(strips_below_triangle<StripOf<T>>, sizeof(StripMemory<StripOf<T>>)));
      then(load(update_behind_panel<UpdateShape<T>, update_residents<T>>, sizeof(UpdateMemory<UpdateShape<T>>)));
    });
  }
  return error;
}

}  // namespace tessera::kernels::cuda
