#include "kernels/cuda/half_batch.hpp"

#include <utility>

#include "kernels/cuda/half_kernel.cuh"

namespace tessera::kernels::cuda {
namespace {

/// f.operator()<index>() with the one that is asked for, of `count`.
template <std::size_t count, class F>
cudaError_t with_index(std::size_t index, F&& f) {
  return [&]<std::size_t... at>(std::index_sequence<at...>) {
    cudaError_t error = cudaErrorInvalidValue;
    static_cast<void>(((at == index && (error = f.template operator()<at>(), true)) || ...));
    return error;
  }
  (std::make_index_sequence<count>());
}

/// f.operator()<Setup>() with the blocks of that class.
template <class F>
cudaError_t with_half_blocks(HalfType type, std::size_t size_class, F&& f) {
  return dispatch(type, [&]<class E>(E) {
    return with_index<plan::half_sizes.size()>(size_class, [&]<std::size_t at>() {
      return f.template operator()<detail::HalfSetup<E, plan::half_blocks(half_type_of<E>(), at)>>();
    });
  });
}

/// f.operator()<Tiny, E>() with what takes tiny problems that way.
template <class F>
cudaError_t with_tiny(HalfType type, const plan::TinyChoice& choice, F&& f) {
  return dispatch(type, [&]<class E>(E) {
    return with_index<plan::tiny_sizes.size()>(choice.size_class, [&]<std::size_t at>() {
      constexpr int places = plan::tiny_sizes[at];
      // Only what the table names is compiled.
      constexpr plan::TinyWay way = plan::tiny_way(half_type_of<E>(), at);
      using Machine = HalfWarps<GpuWarp>;
      if constexpr (way == plan::TinyWay::tensor_cores)
        return f.template operator()<block::TinyByTensorCores<E, places, Machine>, E>();
      else if constexpr (way == plan::TinyWay::lanes)
        return f.template operator()<block::TinyByLanes<E, places, Machine>, E>();
      else
        return cudaErrorInvalidValue;
    });
  });
}

}  // namespace

cudaError_t submit_halves(const HalfBatch& batch, const HalfLaunch& how, cudaStream_t stream) {
  if (how.tiny.way != plan::TinyWay::blocks) {
    return with_tiny(batch.stored, how.tiny,
                     [&]<class Tiny, class E>() { return detail::launch_tiny<Tiny, E>(batch, stream); });
  }
  return with_half_blocks(batch.stored, how.size_class,
                          [&]<class Setup>() { return detail::launch_blocks<Setup>(batch, how.most_blocks, stream); });
}

cudaError_t load_half_kernels() {
  cudaError_t error = cudaSuccess;
  for (const HalfType type : half_types) {
    for (std::size_t at = 0; at < plan::half_sizes.size() && error == cudaSuccess; ++at)
      error = with_half_blocks(type, at, [&]<class Setup>() { return detail::load_blocks<Setup>(); });
    for (std::size_t at = 0; at < plan::tiny_sizes.size() && error == cudaSuccess; ++at) {
      const plan::TinyChoice choice{plan::tiny_way(type, at), at};
      if (choice.way != plan::TinyWay::blocks)
        error = with_tiny(type, choice, [&]<class Tiny, class E>() { return detail::load_tiny<Tiny, E>(); });
    }
  }
  return error;
}

}  // namespace tessera::kernels::cuda
