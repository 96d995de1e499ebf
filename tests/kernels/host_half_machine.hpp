// The Machine of the block code for 16-bit numbers (src/kernels/block/half_*.hpp), made of host threads. The layouts of
// mma.m16n8k16 and m16n8k8 follow the PTX manual (sections 9.7.14 and 9.7.15). Also batches on it, one thread block
// after the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/half.hpp"
#include "kernels/block/half_block.hpp"
#include "kernels/block/half_product.hpp"
#include "kernels/block/half_tiny.hpp"
#include "tests/kernels/host_batch_machine.hpp"

namespace tessera::test {

template <int warps>
class HostHalfWarps : public HostWarps<warps, true> {
  using Base = HostWarps<warps, true>;

 public:
  using Base::Base;

  /// Multiplies eight steps for each word of b.
  template <HalfReal R, std::size_t words>
  void multiply_halves(float (&sums)[4], const std::uint32_t (&a)[2 * words], const std::uint32_t (&b)[words]) {
    std::array<double, 12> passed{};
    std::copy_n(a, 2 * words, passed.begin());
    std::copy_n(b, words, passed.begin() + 4);
    const auto& all = this->exchange(passed);
    const auto number = [&](std::size_t lane, std::size_t word, std::size_t half) {
      const auto both = static_cast<std::uint32_t>(all[lane][word]);
      return to_single(R{static_cast<std::uint16_t>(half == 0 ? both : both >> 16)});
    };
    const auto group = static_cast<std::size_t>(this->lane()) / 4, member = static_cast<std::size_t>(this->lane()) % 4;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t row_half = i / 2, column = 2 * member + i % 2;
      for (std::size_t k = 0; k < 8 * words; ++k) {
        const std::size_t k_half = k / 8, owner = k % 8 / 2;
        sums[i] +=
            number(4 * group + owner, row_half + 2 * k_half, k % 2) * number(4 * column + owner, 4 + k_half, k % 2);
      }
    }
  }

  template <HalfReal R>
  float single(R value) const {
    return to_single(value);
  }
  template <HalfReal R>
  R rounded(float value) const {
    return rounded_to<R>(value);
  }
  void prefetch(const void* /*address*/) const {}
};

/// A thread block of one warp.
struct OneWarpShape {
  static constexpr int warps = 1, threads = 32;
};

/// A rectangle of C by one warp.
template <class Shape, int together, class E>
void run_half_block(const kernels::block::HalfProduct<E>& product, index_t row, index_t column) {
  using Machine = HostHalfWarps<1>;
  run_block<OneWarpShape, Machine>([&](const Machine& machine) {
    const auto run = [&]<bool left_by_lines, bool right_by_lines>() {
      kernels::block::HalfBlock<Shape, Machine, index_t, left_by_lines, right_by_lines, together>(
          product, matrices_of(product), row, column, machine)
          .run();
    };
    if (product.left.lines_are_adjacent)
      product.right.lines_are_adjacent ? run.template operator()<true, true>() : run.template operator()<true, false>();
    else
      product.right.lines_are_adjacent ? run.template operator()<false, true>()
                                       : run.template operator()<false, false>();
  });
}

/// Computes all problems in the order of the batch, by rectangles of the shape's warps.
template <class Shape>
void run_halves_by_blocks(const kernels::HalfBatch& given) {
  const auto batch = kernels::block::half_products<typename Shape::E>(given);
  for (const index_t i : good_problems(batch, given.products.info, given.products.n.is_wide)) {
    const auto product = product_of(batch.form, batch.problem(i));
    if (product.does_nothing) continue;
    const int together = elements_together(product, bits_of_runs(product), matrices_of(product));
    for (index_t column = 0; column < product.n; column += Shape::columns_of_warp) {
      for (index_t row = 0; row < product.m; row += Shape::rows_of_warp) {
        if (together == 4)
          run_half_block<Shape, 4>(product, row, column);
        else if (together == 2)
          run_half_block<Shape, 2>(product, row, column);
        else
          run_half_block<Shape, 1>(product, row, column);
      }
    }
  }
}

/// The same by warps with several problems each. @param Tiny<E, places, Machine>
template <template <class, int, class> class Tiny, class E, int places>
void run_tiny_halves(const kernels::HalfBatch& given) {
  using Machine = HostHalfWarps<1>;
  using Kernel = Tiny<E, places, Machine>;
  const auto batch = kernels::block::half_products<E>(given);
  std::vector<kernels::block::HalfProduct<E>> products(static_cast<std::size_t>(batch.count));
  for (auto& product : products) product.does_nothing = true;
  for (const index_t i : good_problems(batch, given.products.info, given.products.n.is_wide))
    products[static_cast<std::size_t>(i)] = product_of(batch.form, batch.problem(i));
  kernels::block::HalfProduct<E> none;
  none.does_nothing = true;
  for (index_t first = 0; first < batch.count; first += Kernel::problems) {
    run_block<OneWarpShape, Machine>([&](const Machine& machine) {
      const index_t number = first + Kernel::problem_of(machine.lane());
      Kernel(number < batch.count ? products[static_cast<std::size_t>(number)] : none, machine).run();
    });
  }
}

}  // namespace tessera::test
