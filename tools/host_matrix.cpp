#include "host_matrix.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "core/side_by_side.hpp"

namespace tessera::tools {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014) as a hash of the position, so that any part can be filled by any thread.
double uniform(std::uint64_t seed, std::uint64_t position) {
  std::uint64_t z = seed * 0xd1342543de82ef95ull + (position + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53 - 0.5;
}

template <class Real>
void fill(Real* to, std::int64_t count, std::uint64_t seed) {
  for_each_part(count, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<Real>(uniform(seed, static_cast<std::uint64_t>(i)));
  });
}

}  // namespace

HostMatrix::HostMatrix(std::size_t bytes, const tessera_bench_cuda* cuda) : bytes_(bytes), cuda_(cuda) {
  if (cuda_ != nullptr) {
    data_ = cuda_->pinned_alloc(bytes_);
    if (data_ == nullptr) throw std::runtime_error(fmt::format("page-locked memory: {}", cuda_->last_error()));
  } else {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::runtime_error(fmt::format("no {} bytes of memory", bytes_));
  }
}

HostMatrix::~HostMatrix() {
  if (cuda_ != nullptr) {
    cuda_->pinned_free(data_);
  } else {
    munmap(data_, bytes_);
  }
}

void HostMatrix::fill_random(ScalarType type, std::size_t bytes, std::uint64_t seed) {
  if (type == ScalarType::s || type == ScalarType::c) {
    fill(static_cast<float*>(data_), static_cast<std::int64_t>(bytes / sizeof(float)), seed);
  } else {
    fill(static_cast<double*>(data_), static_cast<std::int64_t>(bytes / sizeof(double)), seed);
  }
}

void HostMatrix::condition_triangle(ScalarType type, index_t order, index_t ld) {
  dispatch(type, [this, order, ld](auto tag) {
    using T = decltype(tag);
    T* const matrix = static_cast<T*>(data_);
    const T scale = scalar_cast<T>(1 / std::sqrt(static_cast<double>(order)));
    for_each_part(order, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) {
        T* const column = matrix + j * ld;
        const T diagonal = column[j] + T(1);
        for (std::int64_t i = 0; i < order; ++i) column[i] *= scale;
        column[j] = diagonal;
      }
    });
  });
}

void HostMatrix::copy_from(const HostMatrix& other, std::size_t bytes) {
  for_each_part(static_cast<std::int64_t>(bytes), [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(data_) + begin, static_cast<const std::byte*>(other.data_) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

void for_each_part(std::int64_t count, const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  const std::int64_t parts =
      std::max<std::int64_t>(1, std::min<std::int64_t>(count, std::thread::hardware_concurrency()));
  side_by_side(static_cast<std::size_t>(parts), [&](std::size_t number) {
    const auto part = static_cast<std::int64_t>(number);
    body(count * part / parts, count * (part + 1) / parts);
  });
}

}  // namespace tessera::tools
