#include "kernels/cuda/solve_batch.hpp"

#include <utility>

#include "kernels/block/interchanges.hpp"
#include "kernels/block/lu_panel.hpp"
#include "kernels/block/vector_solve.hpp"
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

constexpr int threads = 128;

template <class E>
__global__ void __launch_bounds__(threads) check(const __grid_constant__ LapackProblems<E> problems) {
  const index_t step = static_cast<index_t>(gridDim.x) * threads;
  for (index_t i = static_cast<index_t>(blockIdx.x) * threads + threadIdx.x; i < problems.count; i += step)
    problems.info.set(i, -bad_argument(problems, problems.problem(i)));
}

/// The order of row interchanges, for all problems.
struct RowOrder {
  bool in_b = false;       ///< n rows of B; else rows k1 to k2 of A
  bool backwards = false;  ///< from the last pivot on
  WordOfEach k1, k2;
  index_t distance = 1;  ///< from pivot to pivot
};

/// Interchanges rows; each thread has a column. @tparam E a type as wide as an element
template <class E>
__global__ void __launch_bounds__(threads)
    interchange(const __grid_constant__ LapackProblems<E> problems, const __grid_constant__ RowOrder order) {
  const index_t layer = blockIdx.y + static_cast<index_t>(blockIdx.z) * gridDim.y;
  for (index_t number = layer; number < problems.count; number += static_cast<index_t>(gridDim.y) * gridDim.z) {
    if (!problems.is_left(number)) continue;
    const LapackProblem<E> problem = problems.problem(number);
    const index_t columns = order.in_b ? problem.nrhs : problem.n;
    E* const matrix = order.in_b ? problem.B : problem.A;
    const index_t ld = order.in_b ? problem.ldb : problem.lda;
    const index_t first = order.in_b ? 1 : order.k1.of(number), last = order.in_b ? problem.n : order.k2.of(number);
    for (index_t j = static_cast<index_t>(blockIdx.x) * threads + threadIdx.x; j < columns;
         j += static_cast<index_t>(gridDim.x) * threads) {
      E* const column = matrix + j * ld - 1;
      for (index_t step = 0; step <= last - first; ++step) {
        const index_t row = order.backwards ? last - step : first + step;
        const index_t with = problem.ipiv.get(first - 1 + (row - first) * order.distance);
        if (with == row) continue;
        const E above = column[row];
        column[row] = column[with];
        column[with] = above;
      }
    }
  }
}

/// The variant of two triangular solves.
struct FactorsOfSolve {
  bool hermitian = false;
  bool lower = true;  ///< of Hermitian factors
  Op op = Op::no_trans;
  bool tells_info = false;
};

/// Solves by teams of as many threads as a block of the factors has rows.
template <Scalar T, std::size_t at>
struct VectorSolveSetup {
  using R = PartOf<T>;
  using E = ElementOf<T>;
  static constexpr int width = plan::vector_solves[at].width, blocks = plan::vector_solves[at].blocks;
  using Teams = detail::SmallTeams<width>;
  using Solve = block::VectorSolve<R, parts_of<T>, blocks, width, typename Teams::Machine>;
  struct Memory {
    typename Solve::Memory tile;
    block::Interchanges<width * blocks> interchanges;
    int pivots[width * blocks];
  };
  static constexpr std::size_t bytes = Teams::count * sizeof(Memory);
};

template <class Setup>
__global__ void __launch_bounds__(Setup::Teams::threads)
    solve_vectors(const __grid_constant__ LapackProblems<typename Setup::E> problems,
                  const __grid_constant__ FactorsOfSolve how) {
  using E = typename Setup::E;
  using Teams = typename Setup::Teams;
  constexpr int width = Setup::width;
  extern __shared__ __align__(16) unsigned char bytes[];
  const int team = Teams::number();
  auto& memory = reinterpret_cast<typename Setup::Memory*>(bytes)[team];
  const typename Teams::Machine machine;
  for (index_t number = static_cast<index_t>(blockIdx.x) * Teams::count + team; number < problems.count;
       number += static_cast<index_t>(gridDim.x) * Teams::count) {
    const LapackProblem<E> problem = problems.problem(number);
    if (how.tells_info && problems.info.at != nullptr) {
      const int bad = bad_argument(problems, problem);
      if (machine.lane() == 0) problems.info.set(number, -bad);
      if (bad != 0) continue;
    } else if (!problems.is_left(number)) {
      continue;
    }
    if (problem.n > width * Setup::blocks) continue;
    const int order = static_cast<int>(problem.n);
    const bool interchanges = problem.ipiv.at != nullptr;
    if (interchanges) {
      for (int i = machine.lane(); i < order; i += width) memory.pivots[i] = static_cast<int>(problem.ipiv.get(i)) - 1;
      machine.meet();
      memory.interchanges.make(
          machine, [&](int i) { return memory.pivots[i]; }, order);
      machine.meet();
    }
    const auto place = [&](bool wanted, int row) {
      return wanted && interchanges ? memory.interchanges.source[row] : row;
    };
    const block::Region region = !how.hermitian ? block::Region::full
                                 : how.lower    ? block::Region::lower
                                                : block::Region::upper;
    typename Setup::Solve vector(memory.tile, problem.A, problem.lda, order, region, machine);
    for (index_t j = 0; j < problem.nrhs; ++j) {
      E* const column = problem.B + j * problem.ldb;
      const bool is_plain = how.op == Op::no_trans;
      vector.for_each_row([&](int row, E& x) { x = column[place(is_plain, row)]; });
      machine.meet();
      // The two systems are L and L^H, U^H and U, L and U, or U and L transposed.
      const bool first_is_transposed = how.hermitian ? !how.lower : !is_plain;
      const bool second_is_transposed = how.hermitian ? how.lower : !is_plain;
      const bool conjugates = how.hermitian || how.op == Op::conj_trans;
      vector.template solve<true>(first_is_transposed, !how.hermitian && !first_is_transposed,
                                  first_is_transposed && conjugates);
      vector.template solve<false>(second_is_transposed, !how.hermitian && second_is_transposed,
                                   second_is_transposed && conjugates);
      vector.for_each_row([&](int row, const E& x) { column[place(!is_plain, row)] = x; });
      machine.meet();
    }
    machine.meet();  // the next problem reuses the memory
  }
}

using VectorSolveClasses = std::make_index_sequence<plan::vector_solves.size()>;

template <class E>
__global__ void __launch_bounds__(threads) make_identity(const __grid_constant__ LapackProblems<E> problems) {
  __shared__ FoundLapackProblem<E> found;
  for (index_t number = blockIdx.x; number < problems.count; number += gridDim.x) {
    if (threadIdx.x < 32) found.find(problems, number, true);
    __syncthreads();
    const LapackProblem<E>& problem = found.problem;
    // A problem above its bound does not fit the memory of its inverse.
    const bool is_good = found.is_good && problem.n <= problem.ldb;
    if (found.is_good && !is_good && threadIdx.x == 0) problems.info.set(number, -problems.positions.n);
    int zero = 0;
    if (is_good && threadIdx.x < 32) {
      // Finds the first zero; each lane checks every 32nd element.
      index_t first = problem.n;
      for (index_t i = threadIdx.x; i < first; i += 32) {
        if (block::is_zero(problem.A[i * (problem.lda + 1)])) first = i;
      }
      for (int distance = 16; distance > 0; distance /= 2) {
        const index_t other = __shfl_xor_sync(0xffffffffU, first, distance);
        if (other < first) first = other;
      }
      zero = first < problem.n ? 1 : 0;
      if (threadIdx.x == 0 && zero > 0) problems.info.set(number, first + 1);
    }
    const bool is_singular = __syncthreads_or(zero) != 0;
    if (is_good && !is_singular) {
      for (index_t at = threadIdx.x; at < problem.n * problem.n; at += threads) {
        const index_t i = at % problem.n, j = at / problem.n;
        E value{};
        if (i == j) value.part[E::re] = 1;
        problem.B[i + j * problem.ldb] = value;
      }
    }
    __syncthreads();
  }
}

template <class E>
__global__ void __launch_bounds__(threads)
    take_result(const __grid_constant__ LapackProblems<E> problems, block::Region region) {
  const index_t layer = blockIdx.y + static_cast<index_t>(blockIdx.z) * gridDim.y;
  for (index_t number = layer; number < problems.count; number += static_cast<index_t>(gridDim.y) * gridDim.z) {
    if (!problems.is_left(number)) continue;
    const LapackProblem<E> problem = problems.problem(number);
    const index_t step = static_cast<index_t>(gridDim.x) * threads;
    for (index_t at = static_cast<index_t>(blockIdx.x) * threads + threadIdx.x; at < problem.n * problem.n;
         at += step) {
      const index_t i = at % problem.n, j = at / problem.n;
      if (!block::is_in(region, i, j)) continue;
      E value = problem.B[i + j * problem.ldb];
      if (i == j && region != block::Region::full) value = real_part(value);
      problem.A[i + j * problem.lda] = value;
    }
  }
}

template <class F>
cudaError_t with_problems(const LapackBatch& batch, F&& f) {
  return dispatch(batch.type, [&]<Scalar T>(T) { return f(block::lapack_problems<PartOf<T>, parts_of<T>>(batch)); });
}

}  // namespace

cudaError_t submit_checks(const LapackBatch& batch, cudaStream_t stream) {
  return with_problems(batch, [&]<class E>(const LapackProblems<E>& problems) {
    return launch(check<E>, detail::grid_of_problems(block::pieces(batch.count, threads)), threads, 0, stream,
                  problems);
  });
}

cudaError_t submit_interchanges(const LapackBatch& batch, cudaStream_t stream) {
  RowOrder order;
  const bool is_laswp = batch.routine == Routine::laswp;
  order.in_b = !is_laswp;
  order.backwards = is_laswp ? batch.incx < 0 : batch.op != Op::no_trans;
  order.k1 = WordOfEach(batch.k1);
  order.k2 = WordOfEach(batch.k2);
  order.distance = is_laswp && batch.incx < 0 ? -batch.incx : is_laswp ? batch.incx : 1;
  const index_t columns = is_laswp ? batch.max_n : batch.max_nrhs;
  return with_problems(batch, [&]<class E>(const LapackProblems<E>& problems) {
    const dim3 grid = detail::grid_of(detail::blocks_for(columns, threads), batch.count, 1);
    return launch(interchange<E>, grid, threads, 0, stream, problems, order);
  });
}

cudaError_t submit_vector_solves(const LapackBatch& batch, bool tells_info, cudaStream_t stream) {
  const FactorsOfSolve how = {.hermitian = is_hermitian(batch.routine),
                              .lower = batch.uplo == Uplo::lower,
                              .op = batch.op,
                              .tells_info = tells_info};
  return dispatch(batch.type, [&]<Scalar T>(T) {
    return detail::with_number(plan::class_of_vector_solve(batch.max_n), VectorSolveClasses(), [&]<std::size_t at>() {
      using Setup = VectorSolveSetup<T, at>;
      const auto problems = block::lapack_problems<PartOf<T>, parts_of<T>>(batch);
      const dim3 grid = detail::grid_of_problems(block::pieces(batch.count, Setup::Teams::count));
      return launch(solve_vectors<Setup>, grid, Setup::Teams::threads, Setup::bytes, stream, problems, how);
    });
  });
}

cudaError_t submit_identities(const LapackBatch& batch, cudaStream_t stream) {
  return with_problems(batch, [&]<class E>(const LapackProblems<E>& problems) {
    return launch(make_identity<E>, detail::grid_of_problems(batch.count), threads, 0, stream, problems);
  });
}

cudaError_t submit_results(const LapackBatch& batch, cudaStream_t stream) {
  const auto region = is_hermitian(batch.routine) ? block::region_of(batch.uplo) : block::Region::full;
  return with_problems(batch, [&]<class E>(const LapackProblems<E>& problems) {
    constexpr index_t elements = 16 * threads;
    const dim3 grid = detail::grid_of(detail::blocks_for(batch.max_n * batch.max_n, elements), batch.count, 1);
    return launch(take_result<E>, grid, threads, 0, stream, problems, region);
  });
}

cudaError_t load_solve_kernels() {
  cudaError_t error = cudaSuccess;
  for (const ScalarType type : scalar_types) {
    dispatch(type, [&]<Scalar T>(T) {
      using E = ElementOf<T>;
      for (const auto next :
           {reinterpret_cast<const void*>(check<E>), reinterpret_cast<const void*>(interchange<E>),
            reinterpret_cast<const void*>(make_identity<E>), reinterpret_cast<const void*>(take_result<E>)}) {
        if (error == cudaSuccess) error = device::cuda::load_kernel(next);
      }
      [&]<std::size_t... at>(std::index_sequence<at...>) {
        const auto then = [&](cudaError_t next) { error = next; };
        ((error == cudaSuccess
              ? then(detail::load(solve_vectors<VectorSolveSetup<T, at>>, VectorSolveSetup<T, at>::bytes))
              : void()),
         ...);
      }
      (VectorSolveClasses());
    });
  }
  return error;
}

}  // namespace tessera::kernels::cuda
