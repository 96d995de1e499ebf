#include "kernels/cuda/triangular_batch.hpp"

#include "kernels/cuda/size_classes.hpp"
#include "kernels/cuda/sweep_kernel.cuh"

namespace tessera::kernels::cuda {
namespace {

/// Calls f.operator()<Setup>() with the strips of that class.
template <bool is_solve, class F>
cudaError_t with_strips(ScalarType type, std::size_t size_class, F&& f) {
  return with_size_class(type, size_class, [&]<Scalar T, std::size_t at>() {
    constexpr plan::SweepStrips strips = plan::sweep_strips(is_solve, scalar_type_of<T>(), at);
    return f.template operator()<detail::SetupOfStrips<T, strips, at>>();
  });
}

template <bool is_solve>
cudaError_t submit(const Level3Batch& batch, const SweepLaunch& how, cudaStream_t stream) {
  return with_strips<is_solve>(batch.common.type, how.size_class, [&]<class Setup>() {
    return detail::launch_sweep<Setup, is_solve>(batch, how, stream);
  });
}

template <bool is_solve>
cudaError_t load() {
  return load_size_classes([](ScalarType type, std::size_t size_class) {
    return with_strips<is_solve>(type, size_class,
                                 [&]<class Setup>() { return detail::load_sweep<Setup, is_solve>(); });
  });
}

}  // namespace

cudaError_t submit_sweeps(const Level3Batch& batch, const SweepLaunch& how, cudaStream_t stream) {
  return batch.common.routine == Routine::trsm ? submit<true>(batch, how, stream) : submit<false>(batch, how, stream);
}

cudaError_t load_sweep_kernels() {
  const cudaError_t error = load<true>();
  return error != cudaSuccess ? error : load<false>();
}

}  // namespace tessera::kernels::cuda
