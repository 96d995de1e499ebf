// The problems of a case in the memory of the device: as they begin, and several copies on which routines work in place.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include "bench/frame/device_libraries.hpp"
#include "bench/frame/device_timer.hpp"
#include "bench/lapack_batch_cases.hpp"
#include "bench/lapack_batch_peers.hpp"

namespace tessera::bench {

/// A piece of device memory from which each case takes its arrays, one behind the other.
class Arena {
 public:
  explicit Arena(std::size_t bytes) : memory_(bytes), bytes_(bytes) {}

  static std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  void clear() { taken_ = 0; }
  std::size_t bytes() const { return bytes_; }
  template <class E>
  E* take(std::size_t elements) {
    const std::size_t bytes = rounded(elements * sizeof(E));
    if (bytes > bytes_ - taken_) throw std::runtime_error("the arena is too small");
    auto* const begin = reinterpret_cast<E*>(memory_.get() + taken_);
    taken_ += bytes;
    return begin;
  }

 private:
  DeviceArray<char> memory_;
  std::size_t bytes_, taken_ = 0;
};

/// One operand of all problems: how it begins, and copies of that with the addresses of each problem's part.
template <class E>
struct Copies {
  Copies() = default;
  Copies(Arena& arena, index_t of_one, index_t count, std::size_t copies)
      : of_one(static_cast<std::size_t>(of_one)),
        count(static_cast<std::size_t>(count)),
        start(arena.take<E>(elements())),
        work(arena.take<E>(elements() * copies)),
        addresses(arena.take<E*>(this->count * copies)) {
    std::vector<E*> all(this->count * copies);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = work + i * this->of_one;
    check(cudaMemcpy(addresses, all.data(), all.size() * sizeof(E*), cudaMemcpyHostToDevice), "addresses");
  }

  std::size_t elements() const { return of_one * count; }
  E* first(std::size_t copy) const { return work + copy * elements(); }
  E** at(std::size_t copy) const { return addresses + copy * count; }
  /// Restores the first so many copies.
  void restore(std::size_t copies, cudaStream_t stream) const {
    for (std::size_t i = 0; i < copies; ++i)
      check(cudaMemcpyAsync(first(i), start, elements() * sizeof(E), cudaMemcpyDeviceToDevice, stream), "restore");
  }
  std::vector<E> problem(const E* of_all, std::size_t i) const {
    std::vector<E> host(of_one);
    check(cudaMemcpy(host.data(), of_all + i * of_one, of_one * sizeof(E), cudaMemcpyDeviceToHost), "problem");
    return host;
  }

  std::size_t of_one = 0, count = 0;
  E* start = nullptr;
  E* work = nullptr;
  E** addresses = nullptr;
};

/// Matrices are n x n with leading dimension n, one behind the other. B: right-hand sides, n x nrhs; for inverses the
/// identity, n x n, where peers put their results.
template <Scalar T>
struct LapackProblems {
  LapackCase what;
  std::size_t copies = 0;
  Copies<T> A, B;
  Copies<int> pivots;
  int* info = nullptr;

  /// Bytes of so many copies and the beginning of all operands.
  static std::size_t bytes(const LapackCase& c, std::size_t copies) {
    const auto count = static_cast<std::size_t>(c.count), n = static_cast<std::size_t>(c.n);
    const auto of = [&](std::size_t element, std::size_t of_one) {
      return Arena::rounded(element * of_one * count) + Arena::rounded(element * of_one * count * copies) +
             Arena::rounded(sizeof(void*) * count * copies);
    };
    return of(sizeof(T), n * n) + of(sizeof(T), n * columns(c)) + of(sizeof(int), n) +
           Arena::rounded(sizeof(int) * count);
  }
  static std::size_t columns(const LapackCase& c) {
    return c.inverts() ? static_cast<std::size_t>(c.n) : c.solves() ? static_cast<std::size_t>(c.nrhs) : 0;
  }

  LapackProblems(Arena& arena, const LapackCase& c, std::size_t copies)
      : what(c),
        copies(copies),
        A(arena, c.n * c.n, c.count, copies),
        B(arena, c.n * static_cast<index_t>(columns(c)), c.count, copies),
        pivots(arena, c.n, c.count, copies),
        info(arena.take<int>(static_cast<std::size_t>(c.count))) {}

  /// Restores the operands that the routine writes, in the first so many copies.
  void restore(std::size_t copies_to_restore, cudaStream_t stream) const {
    if (what.writes_a()) A.restore(copies_to_restore, stream);
    if (B.of_one > 0) B.restore(copies_to_restore, stream);
  }
};

/// Random elements of a type, from which matrices are made. They repeat after a while, at another place of each problem.
template <Scalar T>
class Noise {
 public:
  explicit Noise(const Libraries& to) : to_(to), of_a_(period), of_b_(period), scaled_(period) {
    fill_random<T>(of_a_.get(), period, 1, true);
    fill_random<T>(of_b_.get(), period, 1, true, 777);
  }

  /// How a case begins. LU: uniform elements; without interchanges, and Cholesky: a dominant diagonal besides. Factors:
  /// random triangles that are far from singular, and random pivots.
  void fill(const LapackProblems<T>& problems) const {
    const LapackCase& c = problems.what;
    const auto n = static_cast<double>(c.n);
    const bool has_diagonal = c.begins_with_factors() || c.is_cholesky() || c.is(Routine::getrf_nopiv);
    repeat(of_a_.get(), c.begins_with_factors() ? 2 / std::sqrt(n) : 1.0, problems.A.start, problems.A.elements());
    if (has_diagonal) set_diagonal(problems.A.start, c, c.begins_with_factors() ? 1.0 : n);
    if (c.inverts()) {
      check(cudaMemsetAsync(problems.B.start, 0, problems.B.elements() * sizeof(T), to_.stream), "identity");
      set_diagonal(problems.B.start, c, 1);
    } else if (c.solves()) {
      repeat(of_b_.get(), 1, problems.B.start, problems.B.elements());
    }
    check(cudaMemcpy(problems.pivots.start, pivots(c).data(), problems.pivots.elements() * sizeof(int),
                     cudaMemcpyHostToDevice),
          "pivots");
    check(cudaDeviceSynchronize(), "random elements");
    problems.A.restore(problems.copies, to_.stream);
    problems.pivots.restore(problems.copies, to_.stream);
    if (problems.B.of_one > 0) problems.B.restore(problems.copies, to_.stream);
  }

 private:
  static constexpr index_t period = (index_t{1} << 22) - 3;

  void repeat(const T* noise, double scale, T* to, std::size_t elements) const {
    const auto some = std::min(elements, static_cast<std::size_t>(period));
    check(cudaMemcpyAsync(scaled_.get(), noise, some * sizeof(T), cudaMemcpyDeviceToDevice, to_.stream), "fill");
    if (scale != 1) {
      const T factor = scalar_cast<T>(AnyScalar(scale));
      check(VendorLapack<T>::scal(to_.vendor, static_cast<int>(some), vendor_elements(&factor),
                                  vendor_elements(scaled_.get()), 1),
            "scal");
    }
    check(cudaMemcpyAsync(to, scaled_.get(), some * sizeof(T), cudaMemcpyDeviceToDevice, to_.stream), "fill");
    repeat_to_fill(to, some * sizeof(T), elements * sizeof(T), to_.stream);
  }

  /// In as few copies as can be: of all problems one element of the diagonal, or of one problem all.
  void set_diagonal(T* matrices, const LapackCase& c, double value) const {
    const auto n = static_cast<std::size_t>(c.n), count = static_cast<std::size_t>(c.count);
    const std::vector<T> host(std::max(n, count), scalar_cast<T>(AnyScalar(value)));
    const DeviceArray<T> values(host);
    check(cudaDeviceSynchronize(), "diagonal");
    const bool over_problems = n <= count;
    const std::size_t step = over_problems ? n * n : n + 1, rows = over_problems ? count : n;
    for (std::size_t i = 0; i < std::min(n, count); ++i)
      check(cudaMemcpy2DAsync(matrices + i * (over_problems ? n + 1 : n * n), step * sizeof(T), values.get(), sizeof(T),
                              sizeof(T), rows, cudaMemcpyDeviceToDevice, to_.stream),
            "diagonal");
    check(cudaStreamSynchronize(to_.stream), "diagonal");
  }

  static std::vector<int> pivots(const LapackCase& c) {
    std::mt19937 random(1);
    std::vector<int> all(static_cast<std::size_t>(c.n * c.count));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto row = static_cast<unsigned>(i % static_cast<std::size_t>(c.n));
      all[i] = static_cast<int>(row + 1 + random() % (static_cast<unsigned>(c.n) - row));
    }
    return all;
  }

  const Libraries& to_;
  DeviceArray<T> of_a_, of_b_, scaled_;
};

}  // namespace tessera::bench
