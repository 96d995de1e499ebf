// The common part of measurements in device memory: checks, memory, matrices, and times of calls that follow each other
// in a stream.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/frame/timing.hpp"
#include "core/scalar.hpp"

namespace tessera::bench {

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}
inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cublasGetStatusString(status));
}

/// Elements in the memory of the device. Freed with the object.
template <class E>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t elements) { check(cudaMalloc(&begin_, elements * sizeof(E)), "cudaMalloc"); }
  explicit DeviceArray(const std::vector<E>& host) : DeviceArray(host.size()) {
    check(cudaMemcpy(begin_, host.data(), host.size() * sizeof(E), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceArray() { static_cast<void>(cudaFree(begin_)); }
  DeviceArray(DeviceArray&& other) noexcept : begin_(std::exchange(other.begin_, nullptr)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(begin_, other.begin_);
    return *this;
  }

  E* get() const { return begin_; }

 private:
  E* begin_ = nullptr;
};

struct Contestant {
  std::string name;
  std::function<void()> call;
  /// Timed from the call until the device is idle, by the host's clock: for calls that use other streams, and where the
  /// host's part is meant.
  bool until_idle = false;
  /// Outside the timed part, before so many calls, of which there are at most so many: for calls that work in place.
  std::function<void(int calls)> restore = {};
  int most_calls = 200;
};

class Timer {
 public:
  Timer(cudaStream_t stream, double group_seconds, int groups)
      : stream_(stream), group_s_(group_seconds), groups_(groups) {
    check(cudaEventCreate(&begin_), "event");
    check(cudaEventCreate(&end_), "event");
  }
  ~Timer() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Medians of the seconds of one call, in the order of the contestants, who take turns.
  std::vector<double> seconds(const std::vector<Contestant>& contestants) const {
    std::vector<int> calls;
    for (const Contestant& contestant : contestants) {
      static_cast<void>(group(contestant, std::min(2, contestant.most_calls)));
      const double once = group(contestant, 1);
      calls.push_back(static_cast<int>(std::clamp(group_s_ / once, 1.0, static_cast<double>(contestant.most_calls))));
    }
    std::vector<std::vector<double>> times(contestants.size());
    for (int g = 0; g < groups_; ++g) {
      for (std::size_t i = 0; i < contestants.size(); ++i) times[i].push_back(group(contestants[i], calls[i]));
    }
    std::vector<double> medians;
    for (const auto& of_one : times) medians.push_back(median(of_one));
    return medians;
  }

 private:
  double group(const Contestant& contestant, int calls) const {
    if (contestant.restore) contestant.restore(calls);
    if (contestant.until_idle) {
      check(cudaDeviceSynchronize(), "before");
      const Clock::time_point begin = Clock::now();
      for (int i = 0; i < calls; ++i) {
        contestant.call();
        check(cudaDeviceSynchronize(), contestant.name.c_str());
      }
      return seconds_since(begin) / calls;
    }
    check(cudaEventRecord(begin_, stream_), "event");
    for (int i = 0; i < calls; ++i) contestant.call();
    check(cudaEventRecord(end_, stream_), "event");
    check(cudaEventSynchronize(end_), contestant.name.c_str());
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "event");
    return milliseconds * 1e-3 / calls;
  }

  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  double group_s_;
  int groups_;
};

/// Bytes per second that a copy in device memory reads and writes.
inline double measured_copy_rate(const Timer& timer, cudaStream_t stream) {
  constexpr std::size_t bytes = std::size_t{1} << 30;
  const DeviceArray<char> from(bytes), to(bytes);
  check(cudaMemset(from.get(), 1, bytes), "copy");
  const auto copy = [&] {
    check(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  };
  return 2 * static_cast<double>(bytes) / timer.seconds({{"copy", copy}})[0];
}

/// Repeats what the memory begins with until it is full.
inline void repeat_to_fill(void* begin, std::size_t filled_bytes, std::size_t bytes, cudaStream_t stream = nullptr) {
  auto* const memory = static_cast<char*>(begin);
  for (std::size_t done = filled_bytes; done < bytes;) {
    const std::size_t more = std::min(done, bytes - done);
    check(cudaMemcpyAsync(memory + done, memory, more, cudaMemcpyDeviceToDevice, stream), "fill");
    done += more;
  }
}

/// Random elements in [-scale / 2, scale / 2), in both parts of complex ones if so wished. They repeat after a while.
template <Scalar T>
void fill_random(void* device, index_t elements, double scale, bool both_parts = false, std::uint32_t seed = 12345) {
  std::vector<T> some(static_cast<std::size_t>(std::min<index_t>(elements, (index_t{1} << 22) - 3)));
  std::uint32_t state = seed;
  const auto next = [&] {
    state = state * 1664525U + 1013904223U;
    return scale * (static_cast<double>(state >> 8) / (1U << 24) - 0.5);
  };
  for (T& x : some) {
    const double real = next();
    x = scalar_cast<T>(AnyScalar(real, both_parts ? next() : 0.0));
  }
  check(cudaMemcpy(device, some.data(), some.size() * sizeof(T), cudaMemcpyHostToDevice), "fill");
  repeat_to_fill(device, some.size() * sizeof(T), static_cast<std::size_t>(elements) * sizeof(T));
  check(cudaDeviceSynchronize(), "fill");  // later calls may be in a stream that does not wait for these
}

/// The scale of elements beside a diagonal of one that lets calls with such a triangle be repeated in place.
inline double scale_beside_ones(index_t order) { return 0.1 / static_cast<double>(order); }

/// Small random elements, and a diagonal of one in the square matrix of that order; 0: there is none.
template <Scalar T>
void fill(void* device, index_t order, index_t elements) {
  fill_random<T>(device, elements, order > 0 ? scale_beside_ones(order) : 1.0);
  if (order == 0) return;
  const std::vector<T> ones(static_cast<std::size_t>(order), T(1));
  check(cudaMemcpy2D(device, static_cast<std::size_t>(order + 1) * sizeof(T), ones.data(), sizeof(T), sizeof(T),
                     ones.size(), cudaMemcpyHostToDevice),
        "fill");
}

}  // namespace tessera::bench
