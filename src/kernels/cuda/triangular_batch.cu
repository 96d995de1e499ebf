#include "kernels/cuda/triangular_batch.hpp"

#include "kernels/cuda/size_classes.hpp"
#include "kernels/cuda/sweep_kernel.cuh"

namespace tessera::kernels::cuda {
namespace {

/// f.operator()<Shape, residents, has_one_leaf>() with the strips of that class.
template <class F>
cudaError_t with_strips(ScalarType type, std::size_t size_class, F&& f) {
  return with_size_class(type, size_class, [&]<Scalar T, std::size_t at>() {
    constexpr plan::SweepStrips strips = plan::sweep_strips(scalar_type_of<T>(), at);
    using Shape = block::StripShape<block::PartOf<T>, block::parts_of<T>, strips.warps, strips.columns>;
    constexpr bool has_one_leaf = at != plan::any_sweep && Shape::rows >= plan::block_sizes[at];
    return f.template operator()<Shape, strips.residents, has_one_leaf>();
  });
}

}  // namespace

cudaError_t submit_sweeps(const Level3Batch& batch, const SweepLaunch& how, cudaStream_t stream) {
  return with_strips(batch.common.type, how.size_class, [&]<class Shape, int residents, bool has_one_leaf>() {
    return detail::launch_sweep<Shape, residents, has_one_leaf>(batch, how, stream);
  });
}

cudaError_t load_sweep_kernels() {
  return load_size_classes([](ScalarType type, std::size_t size_class) {
    return with_strips(type, size_class, [&]<class Shape, int residents, bool has_one_leaf>() {
      const cudaError_t error = detail::load_sweep<Shape, residents, has_one_leaf>(Routine::trsm);
      return error != cudaSuccess ? error : detail::load_sweep<Shape, residents, has_one_leaf>(Routine::trmm);
    });
  });
}

}  // namespace tessera::kernels::cuda
