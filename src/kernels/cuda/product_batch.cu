#include "kernels/cuda/product_batch.hpp"

#include "kernels/cuda/product_kernel.cuh"
#include "kernels/cuda/size_classes.hpp"

namespace tessera::kernels::cuda {
namespace {

/// Calls f.operator()<Setup, grids>() with the blocks of that class.
template <class F>
cudaError_t with_blocks(ScalarType type, std::size_t size_class, F&& f) {
  return with_size_class(type, size_class, [&]<Scalar T, std::size_t at>() {
    constexpr plan::ProductBlocks blocks = plan::product_blocks(scalar_type_of<T>(), at);
    constexpr detail::Grids grids = plan::is_for_any_spread(at) ? detail::Grids::both : detail::Grids::cut;
    return f.template operator()<detail::SetupOfBlocks<block::PartOf<T>, block::parts_of<T>, blocks>, grids>();
  });
}

}  // namespace

cudaError_t submit_products(const Level3Batch& batch, const ProductLaunch& how, cudaStream_t stream) {
  return with_blocks(batch.common.type, how.size_class, [&]<class Setup, detail::Grids grids>() {
    return detail::launch<Setup, grids>(batch, how, stream);
  });
}

cudaError_t load_product_kernels() {
  return load_size_classes([](ScalarType type, std::size_t size_class) {
    return with_blocks(type, size_class,
                       [&]<class Setup, detail::Grids grids>() { return detail::load<Setup, grids>(); });
  });
}

}  // namespace tessera::kernels::cuda
