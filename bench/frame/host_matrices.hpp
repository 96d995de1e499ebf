// The common part of benchmarks of one large matrix in host memory: its elements, their options, and the devices.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/frame/linear_maps.hpp"
#include "bench/frame/options.hpp"
#include "core/config.hpp"
#include "core/error.hpp"
#include "core/scalar.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/host/host_backend.hpp"
#include "kernels/plugin_loader.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/runtime.hpp"

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

/// A vector with which results are checked. It differs from every column of a matrix.
inline Vector random_vector(index_t n) {
  Vector x;
  for (index_t i = 0; i < n; ++i) x.emplace_back(element_at<double>(i, n, n));
  return x;
}

/// A function of (i, j) that returns this element of an n x n matrix in memory.
template <Scalar T>
auto elements_of(const T* columns, index_t n) {
  return [columns, n](std::size_t i, std::size_t j) { return columns[i + j * static_cast<std::size_t>(n)]; };
}

/// The backend that the environment asks for: GPUs unless it asks for host devices.
inline std::unique_ptr<kernels::Backend> open_backend(const Config& config) {
  if (config.devices != DeviceChoice::host) {
    // The plugin of the build that this program is part of.
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
    const std::filesystem::path plugin = program.parent_path().parent_path() / "lib" / "libtessera_cuda.so";
    const bool is_found = config.plugin_file.empty() && std::filesystem::exists(plugin);
    return kernels::open_plugin(is_found ? plugin.string() : config.plugin_file);
  }
  return kernels::make_host_backend(config, config.host_devices, kernels::CpuBlas::open(config.cpu_blas));
}

struct HostMatrixOptions {
  std::vector<index_t> n;
  std::string types = "d";
  int copy_threads = 0;
  int runs = 0;

  void add_to(CLI::App& app) {
    add_numbers(app, "--n", n, "orders");
    app.add_option("--types", types, "of sdcz");
    app.add_option("--copy-threads", copy_threads, "of each device, for pageable memory");
    app.add_option("--runs", runs, "of each");
  }
};

/// All devices of the environment in a runtime, whose results nobody else finishes.
class HostMatrixBench {
 public:
  /// @throws NotAvailable
  explicit HostMatrixBench(const HostMatrixOptions& options) : options_(options), backend_(open_backend(config_)) {
    std::vector<int> ordinals = config_.ordinals;
    if (ordinals.empty()) {
      ordinals.resize(backend_->devices().size());
      std::iota(ordinals.begin(), ordinals.end(), 0);
    }
    kernels::Opened opened = backend_->open(ordinals, options.copy_threads);
    if (opened.accelerators.empty()) throw NotAvailable("no device can be opened");
    first_device_ = opened.accelerators.front().device.get();
    devices_ = opened.accelerators.size();
    runtime_.emplace(std::move(opened.accelerators), config_, &kernels::reference_level3);
  }

  const Config& config() const { return config_; }
  runtime::Runtime& runtime() { return *runtime_; }
  device::Device& first_device() { return *first_device_; }
  std::size_t devices() const { return devices_; }

  /// measure(n, T), for each order and type. @return whether all say so
  template <class Measure>
  bool all(const Measure& measure) {
    bool is_right = true;
    for (const index_t n : options_.n) {
      for (const ScalarType type : scalar_types) {
        if (options_.types.find(letter(type)) == std::string::npos) continue;
        is_right &= dispatch(type, [&]<Scalar T>(T x) { return measure(n, x); });
      }
    }
    return is_right;
  }

 private:
  const HostMatrixOptions& options_;
  const Config config_ = Config::from_environment();
  std::unique_ptr<kernels::Backend> backend_;
  device::Device* first_device_ = nullptr;  // of the runtime
  std::size_t devices_ = 0;
  std::optional<runtime::Runtime> runtime_;
};

}  // namespace tessera::bench
