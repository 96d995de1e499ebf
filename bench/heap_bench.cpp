// What one allocation and one free cost the host: the device heap (BLASX, section IV-E) beside cudaMalloc / cudaFree and the
// stream-ordered cudaMallocAsync / cudaFreeAsync, in one run on one GPU.
//
// Two loads: tiles of 8 MiB, and a mix of sizes. A number of segments is kept live; each step frees one of them at random and
// allocates its successor. All allocators see the same sequence.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "heap/device_heap.hpp"

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

void check(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "heap_bench: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

struct Options {
  int device = 0;
  int live = 64;
  int steps = 2000;
};

struct Load {
  const char* name;
  std::vector<std::size_t> sizes;  ///< in the order of allocation; the first `live` fill the memory
};

struct Allocator {
  const char* name;
  std::function<std::byte*(std::size_t)> allocate;  ///< nullptr: no memory left
  std::function<void(std::byte*)> free;
  std::function<void()> settle;  ///< ends work that the allocator left to the device
};

struct Cost {
  std::vector<double> microseconds;

  double mean() const {
    double sum = 0;
    for (const double one : microseconds) sum += one;
    return microseconds.empty() ? 0 : sum / static_cast<double>(microseconds.size());
  }
  double quantile(double part) {
    if (microseconds.empty()) return 0;
    const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(microseconds.size() - 1));
    std::nth_element(microseconds.begin(), microseconds.begin() + at, microseconds.end());
    return microseconds[static_cast<std::size_t>(at)];
  }
};

template <class Action>
double timed(const Action& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

void measure(const Options& options, const Load& load, const Allocator& allocator) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::size_t> any_segment(0, static_cast<std::size_t>(options.live) - 1);
  std::vector<std::byte*> segments(static_cast<std::size_t>(options.live), nullptr);
  Cost allocate;
  Cost release;
  int refused = 0;
  const auto renew = [&](std::byte*& segment, std::size_t bytes) {
    if (segment != nullptr) release.microseconds.push_back(timed([&] { allocator.free(segment); }));
    allocate.microseconds.push_back(timed([&] { segment = allocator.allocate(bytes); }));
    if (segment == nullptr) ++refused;
  };
  std::size_t next = 0;
  for (std::byte*& segment : segments) renew(segment, load.sizes[next++]);
  allocator.settle();
  allocate.microseconds.clear();
  const double all = timed([&] {
    while (next < load.sizes.size()) renew(segments[any_segment(random)], load.sizes[next++]);
    allocator.settle();
  });
  for (std::byte* segment : segments) {
    if (segment != nullptr) allocator.free(segment);
  }
  allocator.settle();
  std::printf("%-12s %-28s %10.2f %10.2f %10.2f %10.2f %12.2f %8d\n", load.name, allocator.name, allocate.mean(),
              allocate.quantile(0.99), release.mean(), release.quantile(0.99), all / options.steps, refused);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const int value = std::atoi(argv[i + 1]);
    if (name == "--device") {
      options.device = value;
    } else if (name == "--live" && value > 0) {
      options.live = value;
    } else if (name == "--steps" && value > 0) {
      options.steps = value;
    } else {
      std::fprintf(stderr, "usage: heap_bench [--device N] [--live SEGMENTS] [--steps COUNT]\n");
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  check("cudaSetDevice", cudaSetDevice(options.device));
  cudaDeviceProp properties{};
  check("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, options.device));
  cudaStream_t stream = nullptr;
  check("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  const auto allocations = static_cast<std::size_t>(options.live) + static_cast<std::size_t>(options.steps);
  std::mt19937 random(2);
  std::uniform_int_distribution<std::size_t> mixed(64, 16 * 1024);
  std::vector<Load> loads = {{"8 MiB", std::vector<std::size_t>(allocations, 8 * mebibyte)}, {"64K..16M", {}}};
  for (std::size_t i = 0; i < allocations; ++i) loads[1].sizes.push_back(mixed(random) * 1024);

  // Twice what the largest live set can need, so that no allocator is short of room.
  const std::size_t slab_bytes = 2 * 16 * mebibyte * static_cast<std::size_t>(options.live);
  void* slab = nullptr;
  check("cudaMalloc of the slab", cudaMalloc(&slab, slab_bytes));
  tessera::heap::DeviceHeap heap(static_cast<std::byte*>(slab), slab_bytes);

  const Allocator device_heap{"tessera::heap::DeviceHeap", [&](std::size_t bytes) { return heap.allocate(bytes); },
                              [&](std::byte* segment) { heap.free(segment); }, [] {}};
  const Allocator malloc_free{"cudaMalloc / cudaFree",
                              [](std::size_t bytes) {
                                void* address = nullptr;
                                if (cudaMalloc(&address, bytes) != cudaSuccess) {
                                  static_cast<void>(cudaGetLastError());
                                  return static_cast<std::byte*>(nullptr);
                                }
                                return static_cast<std::byte*>(address);
                              },
                              [](std::byte* segment) { check("cudaFree", cudaFree(segment)); }, [] {}};
  Allocator stream_ordered{"cudaMallocAsync, default",
                           [&](std::size_t bytes) {
                             void* address = nullptr;
                             if (cudaMallocAsync(&address, bytes, stream) != cudaSuccess) {
                               static_cast<void>(cudaGetLastError());
                               return static_cast<std::byte*>(nullptr);
                             }
                             return static_cast<std::byte*>(address);
                           },
                           [&](std::byte* segment) { check("cudaFreeAsync", cudaFreeAsync(segment, stream)); },
                           [&] { check("cudaStreamSynchronize", cudaStreamSynchronize(stream)); }};

  std::printf("%s, %d live segments, %d steps; microseconds\n", properties.name, options.live, options.steps);
  std::printf("%-12s %-28s %10s %10s %10s %10s %12s %8s\n", "sizes", "allocator", "alloc", "p99", "free", "p99",
              "step, all", "refused");
  cudaMemPool_t pool = nullptr;
  check("cudaDeviceGetDefaultMemPool", cudaDeviceGetDefaultMemPool(&pool, options.device));
  for (const Load& load : loads) {
    measure(options, load, device_heap);
    measure(options, load, malloc_free);
    // By default the pool gives its memory back at each synchronisation; a program that minds speed tells it not to.
    unsigned long long threshold = 0;
    check("cudaMemPoolSetAttribute", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    stream_ordered.name = "cudaMallocAsync, default";
    measure(options, load, stream_ordered);
    threshold = ~0ULL;
    check("cudaMemPoolSetAttribute", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    stream_ordered.name = "cudaMallocAsync, keeping";
    measure(options, load, stream_ordered);
    check("cudaMemPoolTrimTo", cudaMemPoolTrimTo(pool, 0));
  }
  check("cudaFree", cudaFree(slab));
  check("cudaStreamDestroy", cudaStreamDestroy(stream));
  return 0;
}
