// The plugin's launches, as loops on the host: the functions that its .cu files define, in place of those files.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "device/cuda/cuda_context.hpp"
#include "device/cuda/triangle_copy.hpp"
#include "device/cuda/triangle_runs.hpp"
#include "kernels/cuda/cholesky_batch.hpp"
#include "kernels/cuda/dense_kernels.hpp"
#include "kernels/cuda/dgemm.hpp"
#include "kernels/cuda/elementwise.hpp"
#include "kernels/cuda/half_batch.hpp"
#include "kernels/cuda/lu_batch.hpp"
#include "kernels/cuda/panel_kernels.hpp"
#include "kernels/cuda/panel_team.hpp"
#include "kernels/cuda/product_batch.hpp"
#include "kernels/cuda/solve_batch.hpp"
#include "kernels/cuda/triangular_batch.hpp"
#include "kernels/cuda/triangular_chain.hpp"
#include "kernels/cuda/triangular_leaf.hpp"
#include "kernels/plan/cholesky_blocks.hpp"
#include "kernels/plan/lapack_choice.hpp"
#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_batch.hpp"
#include "kernels/reference/reference_half.hpp"
#include "kernels/reference/reference_lapack.hpp"
#include "kernels/reference/reference_qr.hpp"
#include "tests/cuda_standin/standin.hpp"

namespace tessera::device::cuda {

cudaError_t copy_triangle(Block to, Block from, Extent extent, cudaMemcpyKind /*direction*/, TrianglePart part,
                          const DeviceProfile& profile, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=, cut = profile.triangle_cut] {
    const bool lower = extent.part == Part::lower;
    for (index_t j = 0; j < extent.columns; ++j) {
      const ColumnRun run = part == TrianglePart::all
                                ? triangle_column(lower, extent.column_bytes, extent.element_bytes, j)
                                : column_beside_rectangle(cut, lower, extent.column_bytes, extent.element_bytes, j);
      if (run.first >= run.last) continue;
      std::memcpy(to.address + j * to.pitch_bytes + run.first, from.address + j * from.pitch_bytes + run.first,
                  static_cast<std::size_t>(run.last - run.first));
    }
  });
}

cudaError_t load_triangle_copy() { return load_kernel(nullptr); }

}  // namespace tessera::device::cuda

namespace tessera::kernels::cuda {

cudaError_t scale(const Level3& call, cudaStream_t stream) {
  return cuda_standin::launch(stream, [call] { reference_level3(call); });
}

cudaError_t make_diagonal_real(const Level3& call, cudaStream_t stream) {
  return cuda_standin::launch(stream, [call] {
    const auto clear = [&]<class R>(std::complex<R>* C) {
      for (index_t i = 0; i < call.n; ++i) C[i + i * call.ldc].imag(0);
    };
    if (call.type == ScalarType::c) clear(static_cast<std::complex<float>*>(call.C));
    if (call.type == ScalarType::z) clear(static_cast<std::complex<double>*>(call.C));
  });
}

cudaError_t copy_to(void* to, const Level3& call, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    const auto element = static_cast<index_t>(element_bytes(call.type));
    for (index_t j = 0; j < call.n; ++j) {
      std::memcpy(static_cast<std::byte*>(to) + j * call.m * element,
                  static_cast<const std::byte*>(call.C) + j * call.ldc * element,
                  static_cast<std::size_t>(call.m * element));
    }
  });
}

cudaError_t add(const Addition& addition, cudaStream_t stream) {
  return cuda_standin::launch(stream, [addition] { reference_add(addition); });
}

cudaError_t mirror(const Mirroring& tile, cudaStream_t stream) {
  return cuda_standin::launch(stream, [tile] { reference_mirror(tile); });
}

cudaError_t load_elementwise_kernels() { return device::cuda::load_kernel(nullptr); }

cudaError_t submit_leaf(const Level3& call, cudaStream_t stream, int /*strip_columns*/) {
  return cuda_standin::launch(stream, [call] { reference_level3(call); });
}

cudaError_t submit_chain(const Level3& call, cudaStream_t stream, int /*strip_columns*/, void* memory) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  return cuda_standin::launch(stream, [call] { reference_level3(call); });
}

namespace {
cudaError_t load_strips() {
  int device = 0, shared_bytes = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  const cudaError_t error = cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return error != cudaSuccess ? error : device::cuda::load_kernel(nullptr, 1);
}
}  // namespace

cudaError_t load_leaf_kernels(WidestStrips& widest) {
  widest.fill(32);
  return load_strips();
}
cudaError_t load_chain_kernels(ChainStrips& strips) {
  strips.fill({plan::chain_strips.begin(), plan::chain_strips.end()});
  return load_strips();
}

cudaError_t submit_products(const Level3Batch& batch, const ProductLaunch& how, cudaStream_t stream) {
  if (how.summed != nullptr) {
    const cudaError_t error =
        cuda_standin::launch(stream, [=, bytes = summed_bytes(batch.count)] { std::memset(how.summed, 0x5a, bytes); });
    if (error != cudaSuccess) return error;
  }
  return cuda_standin::launch(stream, [batch] { reference_level3_batch(batch); });
}

cudaError_t submit_halves(const HalfBatch& batch, const HalfLaunch& /*how*/, cudaStream_t stream) {
  return cuda_standin::launch(stream, [batch] { reference_half_batch(batch); });
}

cudaError_t submit_sweeps(const Level3Batch& batch, const SweepLaunch& /*how*/, cudaStream_t stream) {
  return cuda_standin::launch(stream, [batch] { reference_level3_batch(batch); });
}

// The first launch of an LU factorization computes all of it; the later ones do nothing.
namespace {
cudaError_t submit_step(const LapackBatch& batch, LapackStep step, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] { reference_lapack_step(batch, step); });
}
cudaError_t submit_factorization(const LapackBatch& batch, bool is_first, cudaStream_t stream) {
  if (is_first) return submit_step(batch, LapackStep::factor, stream);
  return cuda_standin::launch(stream, [] {});
}
}  // namespace

cudaError_t submit_small_lu(const LapackBatch& batch, std::size_t /*size_class*/, index_t first, cudaStream_t stream) {
  return submit_factorization(batch, first == 0, stream);
}
cudaError_t submit_lu_register_panel(const LapackBatch& batch, std::size_t /*size_class*/, index_t first,
                                     cudaStream_t stream) {
  return submit_factorization(batch, first == 0, stream);
}
cudaError_t submit_lu_sweep(const LapackBatch& batch, std::size_t /*size_class*/, index_t first, index_t /*width*/,
                            cudaStream_t stream) {
  return submit_factorization(batch, first == 0, stream);
}
cudaError_t submit_lu_strips(const LapackBatch& batch, index_t /*first*/, index_t /*columns*/, cudaStream_t stream) {
  return submit_factorization(batch, false, stream);
}
cudaError_t submit_lu_update(const LapackBatch& batch, index_t /*first*/, index_t /*rows*/, index_t /*columns*/,
                             cudaStream_t stream) {
  return submit_factorization(batch, false, stream);
}

// Cholesky is computed step by step: a tile is factored by blocks, each of which ends a problem of its own size.
namespace {
template <class Work>
cudaError_t submit_for_each_left(const LapackBatch& batch, index_t behind, Work work, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    for (index_t i = 0; i < batch.count; ++i) {
      const index_t n = batch.n.of(i);
      const index_t info = NumberOfEach{.of_each = batch.info, .is_wide = batch.is_wide}.of(i);
      if (info != 0 || n <= behind) continue;
      void* const A = dispatch(batch.type, [&]<Scalar T>(T) -> void* { return batch.A.as<T>().of(i); });
      work({.type = batch.type, .uplo = batch.uplo, .n = n, .A = A, .lda = batch.lda.of(i)}, i);
    }
  });
}
/// Columns [first, first + width) of every factor, or only the triangles at their heads.
cudaError_t submit_columns(const LapackBatch& batch, index_t first, index_t width, bool to_the_end,
                           cudaStream_t stream) {
  if (first == 0) {
    if (const cudaError_t error = submit_step(batch, LapackStep::check, stream); error != cudaSuccess) return error;
  }
  const auto work = [=](const TileFactorization& problem, index_t i) {
    const index_t size = std::min(width, problem.n - first);
    int failed = 0;
    LapackBatch triangle;
    triangle.routine = Routine::potrf;
    triangle.type = problem.type;
    triangle.uplo = problem.uplo;
    triangle.count = 1;
    triangle.n.of_all = triangle.max_n = size;
    triangle.lda.of_all = problem.lda;
    triangle.A.first = static_cast<std::byte*>(problem.A) +
                       first * (problem.lda + 1) * static_cast<index_t>(element_bytes(problem.type));
    triangle.info = &failed;
    reference_lapack_batch(triangle);
    if (failed > 0 && batch.is_wide) static_cast<std::int64_t*>(batch.info)[i] = first + failed;
    if (failed > 0 && !batch.is_wide) static_cast<int*>(batch.info)[i] = static_cast<int>(first) + failed;
    if (failed == 0 && to_the_end && first + size < problem.n)
      reference_level3(plan::behind_block(problem, first, size).solve);
  };
  return submit_for_each_left(batch, first, work, stream);
}
}  // namespace

cudaError_t submit_small_cholesky(const LapackBatch& batch, std::size_t size_class, index_t first,
                                  cudaStream_t stream) {
  return submit_columns(batch, first, plan::small_factorizations[size_class].order, false, stream);
}
cudaError_t submit_cholesky_strips(const LapackBatch& batch, index_t first, index_t /*most*/, cudaStream_t stream) {
  constexpr index_t width = plan::cholesky_triangle;
  return submit_for_each_left(
      batch, first + width,
      [=](const TileFactorization& problem, index_t) {
        reference_level3(plan::behind_block(problem, first, width).solve);
      },
      stream);
}
cudaError_t submit_cholesky_sweep(const LapackBatch& batch, std::size_t /*size_class*/, index_t first, index_t width,
                                  cudaStream_t stream) {
  return submit_columns(batch, first, width, true, stream);
}
cudaError_t submit_cholesky_update(const LapackBatch& batch, index_t first, index_t width, index_t /*most*/,
                                   cudaStream_t stream) {
  return submit_for_each_left(
      batch, first + width,
      [=](const TileFactorization& problem, index_t) {
        reference_level3(plan::behind_block(problem, first, width).update);
      },
      stream);
}
cudaError_t submit_checks(const LapackBatch& batch, cudaStream_t stream) {
  return submit_step(batch, LapackStep::check, stream);
}
cudaError_t submit_interchanges(const LapackBatch& batch, cudaStream_t stream) {
  if (batch.routine != Routine::laswp) return submit_step(batch, LapackStep::interchange, stream);
  return cuda_standin::launch(stream, [batch] { reference_lapack_batch(batch); });
}
cudaError_t submit_vector_solves(const LapackBatch& batch, bool tells_info, cudaStream_t stream) {
  if (!tells_info) return submit_step(batch, LapackStep::solve, stream);
  return cuda_standin::launch(stream, [batch] { reference_lapack_batch(batch); });
}
cudaError_t submit_identities(const LapackBatch& batch, cudaStream_t stream) {
  return submit_step(batch, LapackStep::begin_inverse, stream);
}
cudaError_t submit_results(const LapackBatch& batch, cudaStream_t stream) {
  return submit_step(batch, LapackStep::end_inverse, stream);
}

cudaError_t load_lu_kernels() { return device::cuda::load_kernel(nullptr, 1); }
cudaError_t load_cholesky_kernels() { return device::cuda::load_kernel(nullptr, 1); }
cudaError_t load_solve_kernels() { return device::cuda::load_kernel(nullptr); }

cudaError_t find_largest(const DenseMatrix& matrix, Part part, bool real_diagonal, double* largest,
                         cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    const auto larger = [&](double value) {
      if (std::isnan(value) || std::abs(value) > *largest) *largest = std::abs(value);
    };
    dispatch(matrix.type, [&]<Scalar T>(T) {
      for (index_t j = 0; j < matrix.n; ++j) {
        for (index_t i = part == Part::lower ? j : 0; i < (part == Part::upper ? j + 1 : matrix.m); ++i) {
          const AnyScalar value = static_cast<const T*>(matrix.A)[i + j * matrix.lda];
          if (std::isnan(*largest)) return;
          larger(value.real());
          if (!real_diagonal || i != j) larger(value.imag());
        }
      }
    });
  });
}
cudaError_t transpose(const DenseMatrix& from, const DenseMatrix& to, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    dispatch(from.type, [&]<Scalar T>(T) {
      for (index_t j = 0; j < from.n; ++j) {
        for (index_t i = 0; i < from.m; ++i)
          static_cast<T*>(to.A)[j + i * to.lda] =
              scalar_cast<T>(std::conj(AnyScalar(static_cast<const T*>(from.A)[i + j * from.lda])));
      }
    });
  });
}
cudaError_t copy_trapezoid(const DenseMatrix& from, const Trapezoid& trapezoid, const DenseMatrix& to,
                           cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    dispatch(from.type, [&]<Scalar T>(T) {
      for (index_t j = 0; j < from.n; ++j) {
        for (index_t i = 0; i < from.m; ++i) {
          const index_t below = i - j - trapezoid.shift;
          const bool is_stored = below == 0 || (below > 0) == (trapezoid.part == Part::lower);
          T value = is_stored ? static_cast<const T*>(from.A)[i + j * from.lda] : T(0);
          if (below == 0 && trapezoid.diag == Diag::unit) value = T(1);
          static_cast<T*>(to.A)[i + j * to.lda] = value;
        }
      }
    });
  });
}
cudaError_t divide_by_values(const DenseMatrix& B, const void* values, double rcond, std::int64_t* rank,
                             cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    dispatch(B.type, [&]<Scalar T>(T) {
      using Real = decltype(std::abs(T{}));
      const auto* const divisors = static_cast<const Real*>(values);
      const Real least = effective_rcond<Real>(rcond) * divisors[0];
      for (index_t i = 0; i < B.m; ++i) {
        const bool counts = !(divisors[i] <= least);
        *rank += counts ? 1 : 0;
        for (index_t j = 0; j < B.n; ++j) {
          T& element = static_cast<T*>(B.A)[i + j * B.lda];
          element = counts ? element / divisors[i] : T(0);
        }
      }
    });
  });
}
cudaError_t read_pivots(const DenseMatrix& A, const void* ipiv, int bits, std::int64_t* wide, int* info,
                        cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    dispatch(A.type, [&]<Scalar T>(T) {
      for (index_t i = 0; i < A.n; ++i) {
        wide[i] = bits == 64 ? static_cast<const std::int64_t*>(ipiv)[i] : static_cast<const std::int32_t*>(ipiv)[i];
        if (wide[i] > 0 && static_cast<const T*>(A.A)[i + i * A.lda] == T(0)) *info = static_cast<int>(i + 1);
      }
    });
  });
}
cudaError_t load_dense_kernels() { return device::cuda::load_kernel(nullptr); }
cudaError_t load_copy_kernels() { return device::cuda::load_kernel(nullptr); }

namespace {
template <Scalar T>
bool is_safe(T value) {
  using Real = decltype(std::abs(T{}));
  constexpr int half = std::numeric_limits<Real>::max_exponent / 2;
  const Real larger = std::max(std::abs(std::real(value)), std::abs(std::imag(value)));
  const bool is_finite = std::isfinite(std::real(value)) && std::isfinite(std::imag(value));
  return value == T(0) || (is_finite && larger >= std::ldexp(Real(1), 1 - half) && larger < std::ldexp(Real(1), half));
}
}  // namespace

cudaError_t copy_panel(const Panel& panel, const PanelCopy& copy, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    dispatch(panel.type, [&]<Scalar T>(T) {
      for (index_t j = 0; j < panel.n; ++j) {
        const T* const column = static_cast<const T*>(panel.A) + j * panel.lda;
        if (!std::all_of(column, column + panel.m, is_safe<T>)) copy.state->is_unsafe = 1;
        std::copy_n(column, panel.m, static_cast<T*>(copy.A) + j * panel.m);
      }
    });
  });
}
cudaError_t find_exceptional(const Panel& panel, const PanelCopy& copy, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    dispatch(panel.type, [&]<Scalar T>(T) {
      bool is_exceptional = copy.state->is_unsafe != 0;
      for (index_t i = 0; i < panel.n; ++i)
        is_exceptional = is_exceptional || !is_safe(static_cast<const T*>(panel.A)[i + i * panel.lda]);
      *copy.state = {};
      if (is_exceptional) *copy.state = {static_cast<int>(panel.m), static_cast<int>(panel.n), 0, 0, 0};
    });
  });
}
cudaError_t complete_pivots(const Panel& panel, const PanelCopy& copy, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    std::int32_t& info = *pivot_tail(panel).info;
    info = 0;
    dispatch(panel.type, [&]<Scalar T>(T) {
      T* const A = static_cast<T*>(panel.A);
      for (index_t j = 0; j < copy.state->n; ++j)
        std::copy_n(static_cast<const T*>(copy.A) + j * panel.m, panel.m, A + j * panel.lda);
      for (index_t i = panel.n - 1; i >= 0; --i) {
        if (A[i + i * panel.lda] == T(0)) info = static_cast<std::int32_t>(i + 1);
      }
    });
  });
}
cudaError_t find_not_finite(const Panel& columns, PanelCopy::State* state, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    dispatch(columns.type, [&]<Scalar T>(T) {
      const auto is_finite = [](T value) { return std::isfinite(std::real(value)) && std::isfinite(std::imag(value)); };
      for (index_t j = columns.n - 1; j >= 0; --j) {
        const T* const column = static_cast<const T*>(columns.A) + j * columns.lda;
        if (!std::all_of(column, column + columns.m, is_finite)) state->columns = static_cast<int>(columns.n - j);
      }
    });
  });
}
cudaError_t spread_not_finite(const Panel& columns, void* tau, PanelCopy::State* state, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    dispatch(columns.type, [&]<Scalar T>(T) {
      constexpr double nan = std::numeric_limits<double>::quiet_NaN();
      const T filling = scalar_cast<T>(AnyScalar(nan, nan));
      const index_t first = columns.n - state->columns;
      for (index_t j = first; j < columns.n; ++j) {
        T* const column = static_cast<T*>(columns.A) + j * columns.lda;
        std::fill(column + (j == first ? 0 : first), column + columns.m, filling);
        static_cast<T*>(tau)[j] = filling;
      }
      state->columns = 0;
    });
  });
}
std::size_t bytes_of_sums() { return 1; }
// Few rows, so that small problems have panels for teams and panels for cuSOLVER.
bool fits(const PanelTeam& team, const Panel& panel) {
  return panel.n <= most_columns_of_qr_team && panel.m <= 16 * team.most_blocks;
}
cudaError_t factor_qr_by_team(const Panel& panel, void* tau, PanelTeam& /*team*/, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] { reference_qr(panel, tau); });
}
cudaError_t load_panel_team(const PanelTeam& /*team*/) { return device::cuda::load_kernel(nullptr); }
cudaError_t interchange_rows(const PanelUpdate& update, cudaStream_t stream) {
  return cuda_standin::launch(stream, [update] {
    dispatch(update.panel.type, [&]<Scalar T>(T) {
      for (index_t j = 0; j < update.n; ++j) {
        T* const column = static_cast<T*>(update.C) + j * update.ldc;
        for (index_t i = 0; i < update.panel.n; ++i)
          std::swap(column[i], column[pivot_tail(update.panel).pivots[i] - 1]);
      }
    });
  });
}
cudaError_t prepare_t(ScalarType type, index_t n, void* G, const void* tau, void* to, cudaStream_t stream) {
  return cuda_standin::launch(stream, [=] {
    dispatch(type, [&]<Scalar T>(T) {
      for (index_t j = 0; j < n; ++j) {
        for (index_t i = 0; i < n; ++i) {
          if (i < j) static_cast<T*>(G)[i + j * n] *= static_cast<const T*>(tau)[i];
          static_cast<T*>(to)[i + j * n] = i == j ? static_cast<const T*>(tau)[i] : T(0);
        }
      }
    });
  });
}
cudaError_t load_panel_kernels() { return device::cuda::load_kernel(nullptr, 1); }

cudaError_t load_product_kernels() { return device::cuda::load_kernel(nullptr, 1); }
cudaError_t load_half_kernels() { return device::cuda::load_kernel(nullptr, 1); }
cudaError_t load_sweep_kernels() { return device::cuda::load_kernel(nullptr, 1); }

// The stand-in's GPUs are not of the architecture of these kernels.
cudaError_t HopperDgemm::load(int /*ordinal*/, const device::ProductCrossover& /*crossover*/) { return cudaSuccess; }
std::optional<cudaError_t> HopperDgemm::submit_if_taken(const Level3& /*call*/, cudaStream_t /*stream*/) const {
  return std::nullopt;
}

}  // namespace tessera::kernels::cuda
