// The kernels of half_kernel.cuh that are chosen for a type. Each type has a file of its own (half_batch_h.cu and so
// on). In one file with all types the compiler gives kernels too few registers, and spills some of their sums to
// memory.
#pragma once

#include "kernels/cuda/half_batch.hpp"

#include <utility>

#include "kernels/cuda/half_kernel.cuh"

namespace tessera::kernels::cuda {
namespace detail {

/// Calls f.operator()<index>() with `index` as a constant, below `count`.
template <std::size_t count, class F>
cudaError_t with_index(std::size_t index, F&& f) {
  return [&]<std::size_t... at>(std::index_sequence<at...>) {
    cudaError_t error = cudaErrorInvalidValue;
    static_cast<void>(((at == index && (error = f.template operator()<at>(), true)) || ...));
    return error;
  }
  (std::make_index_sequence<count>());
}

/// Calls f.operator()<Setup>() with the blocks of that class.
template <HalfType type, class F>
cudaError_t with_half_blocks(std::size_t size_class, F&& f) {
  return with_index<plan::half_sizes.size()>(size_class, [&]<std::size_t at>() {
    return f.template operator()<HalfSetup<StoredAs<type>, plan::half_blocks(type, at)>>();
  });
}

/// Calls f.operator()<Tiny>() with the code for tiny problems of that kind.
template <HalfType type, class F>
cudaError_t with_tiny(const plan::TinyChoice& choice, F&& f) {
  return with_index<plan::tiny_sizes.size()>(choice.size_class, [&]<std::size_t at>() {
    constexpr int places = plan::tiny_sizes[at];
    // Only the ways in the table are compiled.
    constexpr plan::TinyWay way = plan::tiny_way(type, at);
    using E = StoredAs<type>;
    using Machine = HalfWarps<GpuWarp>;
    if constexpr (way == plan::TinyWay::tensor_cores)
      return f.template operator()<block::TinyByTensorCores<E, places, Machine>>();
    else if constexpr (way == plan::TinyWay::lanes)
      return f.template operator()<block::TinyByLanes<E, places, Machine>>();
    else
      return cudaErrorInvalidValue;
  });
}

}  // namespace detail

template <HalfType type>
cudaError_t submit_halves_of(const HalfBatch& batch, const HalfLaunch& how, cudaStream_t stream) {
  if (how.tiny.way != plan::TinyWay::blocks) {
    return detail::with_tiny<type>(
        how.tiny, [&]<class Tiny>() { return detail::launch_tiny<Tiny, StoredAs<type>>(batch, stream); });
  }
  return detail::with_half_blocks<type>(
      how.size_class, [&]<class Setup>() { return detail::launch_blocks<Setup>(batch, how.most_blocks, stream); });
}

template <HalfType type>
cudaError_t load_half_kernels_of() {
  cudaError_t error = cudaSuccess;
  for (std::size_t at = 0; at < plan::half_sizes.size() && error == cudaSuccess; ++at)
    error = detail::with_half_blocks<type>(at, [&]<class Setup>() { return detail::load_blocks<Setup>(); });
  for (std::size_t at = 0; at < plan::tiny_sizes.size() && error == cudaSuccess; ++at) {
    const plan::TinyChoice choice{plan::tiny_way(type, at), at};
    if (choice.way != plan::TinyWay::blocks)
      error = detail::with_tiny<type>(choice, [&]<class Tiny>() { return detail::load_tiny<Tiny, StoredAs<type>>(); });
  }
  return error;
}

}  // namespace tessera::kernels::cuda
