// What benches of one large matrix in host memory have in common: its elements, and the devices.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/config.hpp"
#include "core/scalar.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/host/host_backend.hpp"
#include "kernels/plugin_loader.hpp"

namespace tessera::bench {

template <Scalar T>
using RealPart = decltype(std::abs(T{}));

/// A matrix that nobody has to keep: elements are computed from their places.
template <Scalar T>
T element_at(index_t i, index_t j, index_t n) {
  const auto number = [](std::uint64_t seed) {  // splitmix64, in (-0.5, 0.5)
    std::uint64_t x = seed * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53 - 0.5;
  };
  const auto place = static_cast<std::uint64_t>(2 * (i * n + j) + 1);
  return scalar_cast<T>(AnyScalar(number(place), number(place + 1)));
}

/// Those of the environment: GPUs unless it asks for host devices.
inline std::unique_ptr<kernels::Backend> open_backend(const Config& config) {
  if (config.devices != DeviceChoice::host) {
    // Of the build that this program is part of.
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
    const std::filesystem::path plugin = program.parent_path().parent_path() / "lib" / "libtessera_cuda.so";
    const bool is_found = config.cuda_plugin.empty() && std::filesystem::exists(plugin);
    return kernels::open_cuda_backend(is_found ? plugin.string() : config.cuda_plugin);
  }
  return kernels::make_host_backend(config, config.host_devices, kernels::CpuBlas::open(config.cpu_blas));
}

}  // namespace tessera::bench
