#include "kernels/cuda/lu_batch.hpp"

#include <utility>

#include "kernels/block/lu_strip.hpp"
#include "kernels/block/lu_sweep.hpp"
#include "kernels/block/tile_schedule.hpp"
#include "kernels/cuda/lapack_grid.cuh"
#include "kernels/plan/lapack_choice.hpp"

namespace tessera::kernels::cuda {
namespace {

using block::ElementOf;
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

// --- in registers ---

template <class Shape, bool pivots>
__global__ void __launch_bounds__(detail::SmallTeams<Shape::threads>::threads,
                                  detail::SmallTeams<Shape::threads>::residents(sizeof(typename Shape::E) *
                                                                                Shape::columns * Shape::rows_of_thread))
    small_lu(const __grid_constant__ LapackProblems<typename Shape::E> problems, index_t first,
             typename Shape::R tiny) {
  using E = typename Shape::E;
  using Teams = detail::SmallTeams<Shape::threads>;
  using Machine = typename Teams::Machine;
  __shared__ block::PanelMemory<Shape> memory[Teams::count];
  const Machine machine;
  const int team = Teams::number();
  for (index_t number = static_cast<index_t>(blockIdx.x) * Teams::count + team; number < problems.count;
       number += static_cast<index_t>(gridDim.x) * Teams::count) {
    const block::LapackProblem<E> problem = problems.problem(number);
    const int bad = first == 0 ? bad_argument(problems, problem) : 0;
    const bool is_good = first == 0 ? bad == 0 : problems.info.get(number) >= 0;
    const index_t rows = problem.m - first, columns = problem.n - first;
    int zero = 0;
    if (is_good && rows > 0 && columns > 0 && rows <= Shape::rows) {
      E* const corner = problem.A + first * (problem.lda + 1);
      block::LuPanel<Shape, Machine, pivots> panel(memory[team], machine);
      const int height = static_cast<int>(rows);
      const int width = static_cast<int>(columns < Shape::columns ? columns : Shape::columns);
      panel.load(corner, problem.lda, height, width);
      zero = panel.factor(tiny);
      machine.meet();
      panel.store(corner, problem.lda);
      if constexpr (pivots) {
        for (int i = machine.thread(); i < (height < width ? height : width); i += Shape::threads)
          problem.ipiv.set(first + i, first + memory[team].pivots[i] + 1);
      }
    }
    if (machine.thread() == 0) {
      if (first == 0)
        problems.info.set(number, zero > 0 ? zero : -bad);
      else if (zero > 0 && problems.info.get(number) == 0)
        problems.info.set(number, first + zero);
    }
    machine.meet();  // the next problem reuses the memory
  }
}

template <Scalar T, std::size_t at>
using SmallShape =
    block::PanelShape<PartOf<T>, parts_of<T>, plan::small_factorizations[at].order,
                      plan::rows_of_small_lu(scalar_type_of<T>(), at),
                      plan::small_factorizations[at].threads / plan::rows_of_small_lu(scalar_type_of<T>(), at)>;

template <Scalar T, std::size_t at>
using RegisterPanel = block::PanelShape<PartOf<T>, parts_of<T>, plan::lu_panel_columns, 1, plan::register_panels[at]>;

// --- by one thread block ---

template <Scalar T, std::size_t at>
struct SweepSetup {
  using R = PartOf<T>;
  using E = ElementOf<T>;
  static constexpr plan::FactorizationSweep sweep = plan::lu_sweep(scalar_type_of<T>(), at);
  static constexpr int threads = plan::threads_of(sweep), residents = sweep.blocks.residents;
  using Leaf = block::PanelShape<R, parts_of<T>, plan::leaf_columns(scalar_type_of<T>()), sweep.rows_of_thread, threads,
                                 sweep.rows_of_thread == 1 ? 4 : 1>;
  using Block = block::GemmShape<R, parts_of<T>, sweep.blocks.rows, sweep.blocks.columns, sweep.blocks.warps_down,
                                 sweep.blocks.warps_across, sweep.blocks.stages>;
  template <bool pivots>
  using Sweep = block::LuSweep<Leaf, Block, MeetingWarps, pivots, sweep.any_height>;
  template <bool pivots>
  struct alignas(16) Memory {
    typename Sweep<pivots>::Memory sweep;
    FoundLapackProblem<E> found;
  };
};

template <class Setup, bool pivots>
__global__ void __launch_bounds__(Setup::threads, Setup::residents)
    sweep_lu(const __grid_constant__ LapackProblems<typename Setup::E> problems, index_t first, index_t width,
             typename Setup::R tiny) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<typename Setup::template Memory<pivots>*>(bytes);
  for (index_t number = blockIdx.x; number < problems.count; number += gridDim.x) {
    if (threadIdx.x < 32) memory.found.find(problems, number, first == 0);
    __syncthreads();
    const auto& problem = memory.found.problem;
    const index_t height = problem.m - first;
    const index_t columns = problem.n - first < width ? problem.n - first : width;
    if (memory.found.is_good && height > 0 && columns > 0) {
      typename Setup::template Sweep<pivots> sweep(memory.sweep, {});
      const index_t zero =
          sweep.run(problem.A + first + first * problem.lda, problem.lda, height, columns, problem.ipiv, first, tiny);
      if (threadIdx.x == 0 && zero > 0 && problems.info.get(number) == 0) problems.info.set(number, first + zero);
    }
    __syncthreads();
  }
}

// --- beside a panel ---

template <Scalar T>
using StripOf = block::StripShape<PartOf<T>, parts_of<T>, plan::lu_panel_columns / block::rows_per_block,
                                  is_complex(scalar_type_of<T>()) ? 8 : 32>;

template <class Shape>
struct StripMemory {
  typename block::LuStrip<Shape, MeetingWarps>::Memory strip;
  FoundLapackProblem<typename Shape::E> found;
};

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 3)
    strips_beside_panel(const __grid_constant__ LapackProblems<typename Shape::E> problems, index_t first,
                        index_t strips_before) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& memory = *reinterpret_cast<StripMemory<Shape>*>(bytes);
  const index_t layer = blockIdx.y + static_cast<index_t>(blockIdx.z) * gridDim.y;
  for (index_t number = layer; number < problems.count; number += static_cast<index_t>(gridDim.y) * gridDim.z) {
    if (threadIdx.x < 32) memory.found.find(problems, number, false);
    __syncthreads();
    const auto& problem = memory.found.problem;
    const bool has_panel = memory.found.is_good && first < problem.m && first < problem.n;
    const index_t behind = first + plan::lu_panel_columns;
    const index_t after = problem.n > behind ? block::pieces(problem.n - behind, Shape::columns) : 0;
    const index_t strips = has_panel ? strips_before + after : 0;
    block::LuStrip<Shape, MeetingWarps> beside(memory.strip, {});
    if (blockIdx.x < strips) beside.begin(problem, first);
    for (index_t strip = blockIdx.x; strip < strips; strip += gridDim.x) {
      const bool is_before = strip < strips_before;
      beside.run(is_before ? strip * Shape::columns : behind + (strip - strips_before) * Shape::columns,
                 is_before ? first : problem.n);
    }
    __syncthreads();
  }
}

template <class Shape, int residents>
__global__ void __launch_bounds__(Shape::threads, residents)
    update_behind_panel(const __grid_constant__ LapackProblems<typename Shape::E> problems, index_t first) {
  using E = typename Shape::E;
  extern __shared__ __align__(16) unsigned char bytes[];
  const auto make = [&](const block::LapackProblem<E>& problem, bool is_good, index_t /*number*/) {
    const index_t behind = first + plan::lu_panel_columns;
    auto product = block::product_behind_panel(problem.A + first + first * problem.lda, problem.lda, problem.m - first,
                                               problem.n - first, index_t{plan::lu_panel_columns});
    product.does_nothing = !is_good || behind >= problem.m || behind >= problem.n;
    return product;
  };
  detail::update_all<Shape, block::Result::by_columns>(problems, *reinterpret_cast<UpdateMemory<Shape>*>(bytes), make);
}

// --- launches ---

bool pivots_in(const LapackBatch& batch) { return batch.routine != Routine::getrf_nopiv; }

using SweepClasses = std::make_index_sequence<plan::lu_sweep_count>;
using RegisterPanels = std::make_index_sequence<plan::register_panels.size()>;

template <class Shape, Scalar T>
cudaError_t submit_in_registers(const LapackBatch& batch, index_t first, cudaStream_t stream) {
  using Teams = detail::SmallTeams<Shape::threads>;
  const auto problems = block::lapack_problems<PartOf<T>, parts_of<T>>(batch);
  const dim3 grid = detail::grid_of_problems(block::pieces(batch.count, Teams::count));
  const auto tiny = static_cast<PartOf<T>>(batch.tiny);
  return pivots_in(batch) ? launch(small_lu<Shape, true>, grid, Teams::threads, 0, stream, problems, first, tiny)
                          : launch(small_lu<Shape, false>, grid, Teams::threads, 0, stream, problems, first, tiny);
}

}  // namespace

cudaError_t submit_small_lu(const LapackBatch& batch, std::size_t size_class, index_t first, cudaStream_t stream) {
  return dispatch(batch.type, [&]<Scalar T>(T) {
    return detail::with_small_class<T>(
        size_class, [&]<std::size_t at>() { return submit_in_registers<SmallShape<T, at>, T>(batch, first, stream); });
  });
}

cudaError_t submit_lu_register_panel(const LapackBatch& batch, std::size_t size_class, index_t first,
                                     cudaStream_t stream) {
  return dispatch(batch.type, [&]<Scalar T>(T) {
    return with_number(size_class, RegisterPanels(), [&]<std::size_t at>() {
      if constexpr (plan::is_register_panel(scalar_type_of<T>(), at))
        return submit_in_registers<RegisterPanel<T, at>, T>(batch, first, stream);
      else
        return cudaErrorInvalidValue;
    });
  });
}

cudaError_t submit_lu_sweep(const LapackBatch& batch, std::size_t size_class, index_t first, index_t width,
                            cudaStream_t stream) {
  return dispatch(batch.type, [&]<Scalar T>(T) {
    return with_number(size_class, SweepClasses(), [&]<std::size_t at>() {
      using Setup = SweepSetup<T, at>;
      const auto problems = block::lapack_problems<PartOf<T>, parts_of<T>>(batch);
      const dim3 grid = detail::grid_of_problems(batch.count);
      const auto tiny = static_cast<PartOf<T>>(batch.tiny);
      return pivots_in(batch)
                 ? launch(sweep_lu<Setup, true>, grid, Setup::threads, sizeof(typename Setup::template Memory<true>),
                          stream, problems, first, width, tiny)
                 : launch(sweep_lu<Setup, false>, grid, Setup::threads, sizeof(typename Setup::template Memory<false>),
                          stream, problems, first, width, tiny);
    });
  });
}

cudaError_t submit_lu_strips(const LapackBatch& batch, index_t first, index_t most_columns, cudaStream_t stream) {
  return dispatch(batch.type, [&]<Scalar T>(T) {
    using Shape = StripOf<T>;
    auto problems = block::lapack_problems<PartOf<T>, parts_of<T>>(batch);
    const index_t before = pivots_in(batch) ? block::pieces(first, Shape::columns) : 0;
    const index_t behind = first + plan::lu_panel_columns;
    const index_t after = most_columns > behind ? block::pieces(most_columns - behind, Shape::columns) : 0;
    if (before + after == 0) return cudaSuccess;
    return launch(strips_beside_panel<Shape>, detail::grid_of(detail::blocks_for(before + after, 1), batch.count, 1),
                  Shape::threads, sizeof(StripMemory<Shape>), stream, problems, first, before);
  });
}

cudaError_t submit_lu_update(const LapackBatch& batch, index_t first, index_t most_rows, index_t most_columns,
                             cudaStream_t stream) {
  return dispatch(batch.type, [&]<Scalar T>(T) {
    using Shape = UpdateShape<T>;
    const auto problems = block::lapack_problems<PartOf<T>, parts_of<T>>(batch);
    const index_t blocks = block::pieces(most_rows, Shape::rows) * block::pieces(most_columns, Shape::columns);
    return launch(update_behind_panel<Shape, update_residents<T>>,
                  detail::grid_of(detail::blocks_for(blocks, 1), batch.count, 1), Shape::threads,
                  sizeof(UpdateMemory<Shape>), stream, problems, first);
  });
}

cudaError_t load_lu_kernels() {
  cudaError_t error = cudaSuccess;
  const auto then = [&](cudaError_t next) {
    if (error == cudaSuccess) error = next;
  };
  for (const ScalarType type : scalar_types) {
    dispatch(type, [&]<Scalar T>(T) {
      detail::for_each_small_class<T>([&]<std::size_t at>() {
        then(load(small_lu<SmallShape<T, at>, true>));
        then(load(small_lu<SmallShape<T, at>, false>));
      });
      [&]<std::size_t... at>(std::index_sequence<at...>) {
        (then(load(sweep_lu<SweepSetup<T, at>, true>, sizeof(typename SweepSetup<T, at>::template Memory<true>))), ...);
        (then(load(sweep_lu<SweepSetup<T, at>, false>, sizeof(typename SweepSetup<T, at>::template Memory<false>))),
         ...);
      }
      (SweepClasses());
      for (std::size_t i = 0; i < plan::register_panels.size(); ++i) {
        static_cast<void>(with_number(i, RegisterPanels(), [&]<std::size_t at>() {
          if constexpr (plan::is_register_panel(scalar_type_of<T>(), at)) {
            then(load(small_lu<RegisterPanel<T, at>, true>));
            then(load(small_lu<RegisterPanel<T, at>, false>));
          }
          return cudaSuccess;
        }));
      }
      then(load(strips_beside_panel<StripOf<T>>, sizeof(StripMemory<StripOf<T>>)));
      then(load(update_behind_panel<UpdateShape<T>, update_residents<T>>, sizeof(UpdateMemory<UpdateShape<T>>)));
    });
  }
  return error;
}

}  // namespace tessera::kernels::cuda
