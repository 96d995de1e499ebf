// The block code of 16-bit numbers on host threads: the layouts of the tensor cores' fragments, every way of loading
// operands into them, rectangles of several shapes, and tiny problems.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "kernels/batch_of_one.hpp"
#include "kernels/plan/half_blocks.hpp"
#include "tests/half_problem.hpp"
#include "tests/kernels/host_half_machine.hpp"

namespace tessera {
namespace half_block_test {

using kernels::HalfBatch;
using kernels::block::HalfShape;
using kernels::plan::HalfBlocks;
using test::HalfCase;
using test::HalfFixture;

constexpr Op all_ops[] = {Op::no_trans, Op::trans, Op::conj_trans};

/// One problem as a batch.
template <class E>
HalfBatch batch_of(HalfFixture<E>& fixture) {
  HalfBatch batch{.stored = half_type_of<E>()};
  batch.products = kernels::batch_of_one(fixture.problem());
  return batch;
}

// A by eights of rows, and B: a sum of products whose places are known.
TEST(HalfMachine, AMultiplicationIsThatOfThePtxManual) {
  std::array<std::array<float, 16>, 16> a{};
  std::array<std::array<float, 8>, 16> b{};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t k = 0; k < 16; ++k) a[i][k] = static_cast<float>(i * 16 + k) - 100;
    for (std::size_t j = 0; j < 8; ++j) b[i][j] = static_cast<float>(j * 16 + i) - 60;
  }
  const auto pair = [](float low, float high) {
    return rounded_to<Half>(low).bits | static_cast<std::uint32_t>(rounded_to<Half>(high).bits) << 16;
  };
  std::array<std::array<float, 4>, 32> sums{};
  test::run_block<test::OneWarpShape, test::HostHalfWarps<1>>([&](test::HostHalfWarps<1> machine) {
    const auto lane = static_cast<std::size_t>(machine.lane()), g = lane / 4, t = lane % 4;
    const std::uint32_t left[4] = {pair(a[g][2 * t], a[g][2 * t + 1]), pair(a[g + 8][2 * t], a[g + 8][2 * t + 1]),
                                   pair(a[g][2 * t + 8], a[g][2 * t + 9]),
                                   pair(a[g + 8][2 * t + 8], a[g + 8][2 * t + 9])};
    const std::uint32_t right[2] = {pair(b[2 * t][g], b[2 * t + 1][g]), pair(b[2 * t + 8][g], b[2 * t + 9][g])};
    float of_lane[4] = {};
    machine.multiply_halves<Half>(of_lane, left, right);
    std::copy_n(of_lane, 4, sums[lane].begin());
  });
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {
      float expected = 0;
      for (std::size_t k = 0; k < 16; ++k) expected += a[lane / 4 + 8 * (i / 2)][k] * b[k][2 * (lane % 4) + i % 2];
      EXPECT_EQ(sums[lane][i], expected) << lane << ' ' << i;
    }
  }
}

// The same with eight steps.
TEST(HalfMachine, AMultiplicationOfEightStepsIsThatOfThePtxManual) {
  const auto a = [](std::size_t row, std::size_t k) { return static_cast<float>(row * 8 + k) - 60; };
  const auto b = [](std::size_t k, std::size_t column) { return static_cast<float>(column * 8 + k) - 30; };
  const auto pair = [](float low, float high) {
    return rounded_to<BFloat16>(low).bits | static_cast<std::uint32_t>(rounded_to<BFloat16>(high).bits) << 16;
  };
  std::array<std::array<float, 4>, 32> sums{};
  test::run_block<test::OneWarpShape, test::HostHalfWarps<1>>([&](test::HostHalfWarps<1> machine) {
    const auto lane = static_cast<std::size_t>(machine.lane()), g = lane / 4, t = lane % 4;
    const std::uint32_t left[2] = {pair(a(g, 2 * t), a(g, 2 * t + 1)), pair(a(g + 8, 2 * t), a(g + 8, 2 * t + 1))};
    const std::uint32_t right[1] = {pair(b(2 * t, g), b(2 * t + 1, g))};
    float of_lane[4] = {};
    machine.multiply_halves<BFloat16>(of_lane, left, right);
    std::copy_n(of_lane, 4, sums[lane].begin());
  });
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {
      float expected = 0;
      for (std::size_t k = 0; k < 8; ++k) expected += a(lane / 4 + 8 * (i / 2), k) * b(k, 2 * (lane % 4) + i % 2);
      EXPECT_EQ(sums[lane][i], expected) << lane << ' ' << i;
    }
  }
}

template <class E, HalfBlocks blocks>
void check_blocks(const HalfCase& c) {
  HalfFixture<E> fixture(c, 5);
  test::run_halves_by_blocks<HalfShape<E, blocks>>(batch_of(fixture));
  EXPECT_TRUE(fixture.check());
}

// Loads of four elements, of two and of one; whole rectangles and parts of them; steps that fill groups, and steps that
// do not.
template <class E, HalfBlocks blocks>
void check_operands() {
  int turn = 0;
  for (const Op op_a : all_ops) {
    for (const Op op_b : all_ops) {
      for (const index_t padding : {0, 2, 3}) {
        for (const index_t k :
             {index_t{12}, 3 * index_t{blocks.depth}, blocks.depth + (padding == 3 ? 5 : 4 - padding)}) {
          HalfCase c{.op_a = op_a, .op_b = op_b, .k = k, .padding = padding};
          const bool is_whole = ++turn % 2 == 0;
          c.m = is_whole ? blocks.rows : blocks.rows + 8;
          c.n = is_whole ? blocks.columns : blocks.columns - 8;
          if (turn % 4 == 3) c.m -= 3, c.n -= 5;
          if (turn % 5 == 0) c.beta = 0;
          if (turn % 7 == 0) c.beta = 1;
          check_blocks<E, blocks>(c);
        }
      }
    }
  }
}

TEST(HalfBlock, SmallestRectangles) {
  check_operands<StoredAs<HalfType::h>, HalfBlocks{16, 16, 16, 1, 1}>();
  check_operands<StoredAs<HalfType::hc>, HalfBlocks{16, 16, 16, 1, 1, true}>();
}
TEST(HalfBlock, SeveralGroupsOfSteps) {
  check_operands<StoredAs<HalfType::bf>, HalfBlocks{32, 32, 48, 1, 1, true}>();
  check_operands<StoredAs<HalfType::bfc>, HalfBlocks{32, 32, 32, 1, 1}>();
}
TEST(HalfBlock, LongRectangles) {
  check_operands<StoredAs<HalfType::h>, HalfBlocks{64, 32, 32, 1, 1}>();
  check_operands<StoredAs<HalfType::hc>, HalfBlocks{16, 64, 16, 1, 1}>();
}

// Columns begin and end in the middle of words, and matrices begin and end with their memory. No element beside them is
// used, and none behind them is read, which AddressSanitizer checks.
template <class E, HalfBlocks blocks>
void check_odd_places() {
  int turn = 0;
  for (const Op op_a : {Op::no_trans, Op::trans}) {
    for (const Op op_b : {Op::no_trans, Op::trans}) {
      for (const std::array<index_t, 3> size : {std::array<index_t, 3>{31, 33, 31},
                                                {17, 1, 49},
                                                {1, 19, 33},
                                                {2, 18, 32},
                                                {33, 17, 3},
                                                {21, 3, 16},
                                                {3, 2, 48},
                                                {16, 16, 17}}) {
        for (const std::size_t before : {0, 1}) {
          ++turn;
          HalfCase c{.op_a = op_a, .op_b = op_b, .m = size[0], .n = size[1], .k = size[2], .padding = turn % 3 % 2};
          if (turn % 5 == 0) c.beta = 0;
          HalfFixture<E> fixture(c, static_cast<unsigned>(turn));
          const auto placed = [&](const std::vector<E>& matrix, index_t ld, index_t rows) {
            std::vector<E> memory(before, fixture.poison());
            memory.insert(memory.end(), matrix.begin(), matrix.end() - (ld - rows));
            return memory;
          };
          HalfBatch batch = batch_of(fixture);
          auto& products = batch.products;
          const Level3 call = fixture.problem();
          const auto A = placed(fixture.A(), call.lda, shape_of_a(call).rows);
          const auto B = placed(fixture.B(), call.ldb, shape_of_b(call).rows);
          auto C = placed(fixture.C(), call.ldc, call.m);
          products.A.first = A.data() + before;
          products.B.first = B.data() + before;
          products.C.first = C.data() + before;
          test::run_halves_by_blocks<HalfShape<E, blocks>>(batch);
          EXPECT_TRUE(before == 0 || std::memcmp(&C[0], &A[0], sizeof(E)) == 0) << "written in front of C";
          std::copy(C.begin() + static_cast<std::ptrdiff_t>(before), C.end(), fixture.C().begin());
          EXPECT_TRUE(fixture.check());
        }
      }
    }
  }
}
TEST(HalfBlock, OddPlaces) {
  check_odd_places<StoredAs<HalfType::h>, HalfBlocks{16, 16, 16, 1, 1, true}>();
  check_odd_places<StoredAs<HalfType::bf>, HalfBlocks{64, 32, 16, 1, 1}>();
  check_odd_places<StoredAs<HalfType::h>, HalfBlocks{32, 32, 32, 1, 1, true}>();
}

// The choice depends on the sizes and strides of all operands along their contiguous dimensions.
TEST(HalfBlock, ElementsOfALoad) {
  using E = StoredAs<HalfType::h>;
  using kernels::block::HalfProduct;
  alignas(16) static E memory[8];
  HalfProduct<E> product;
  product.m = 8, product.n = 12, product.k = 4;
  product.C = memory, product.ldc = 8;
  product.left.at = product.right.at = memory;
  product.left.next_line = 1, product.left.next_step = 16, product.left.lines_are_adjacent = true;
  product.right.next_line = 20, product.right.next_step = 1;
  const auto together_of = [](const HalfProduct<E>& of) {
    return elements_together(of, bits_of_runs(of), matrices_of(of));
  };
  EXPECT_EQ(together_of(product), 4);
  const auto with = [&](auto change) {
    HalfProduct<E> changed = product;
    change(changed);
    return together_of(changed);
  };
  EXPECT_EQ(with([](auto& p) { p.n = 11; }), 4);  // rows of B are not contiguous
  EXPECT_EQ(with([](auto& p) { p.m = 6; }), 2);
  EXPECT_EQ(with([](auto& p) { p.k = 5; }), 1);
  EXPECT_EQ(with([](auto& p) { p.ldc = 10; }), 2);
  EXPECT_EQ(with([](auto& p) { p.C += 1; }), 1);
  EXPECT_EQ(with([](auto& p) { p.left.at += 2; }), 2);
  EXPECT_EQ(with([](auto& p) { p.right.next_line = 21; }), 1);
  // Without steps there are no operands.
  EXPECT_EQ(with([](auto& p) { p.k = 0, p.right.next_line = 21; }), 4);
}

// The bits do not depend on the rectangle, nor on the number of steps loaded together.
TEST(HalfBlock, BitsDoNotDependOnTheShape) {
  dispatch(HalfType::hc, [&]<class E>(E) {
    const HalfCase c{.m = 37, .n = 41, .k = 50, .padding = 1};
    HalfFixture<E> one(c, 1), other(c, 1);
    test::run_halves_by_blocks<HalfShape<E, HalfBlocks{16, 16, 16, 1, 1}>>(batch_of(one));
    test::run_halves_by_blocks<HalfShape<E, HalfBlocks{32, 64, 32, 1, 1, true}>>(batch_of(other));
    EXPECT_EQ(std::memcmp(one.C().data(), other.C().data(), one.C().size() * sizeof(E)), 0);
  });
}

template <template <class, int, class> class Tiny, class E, int places>
void check_tiny() {
  int turn = 0;
  for (const Op op_a : all_ops) {
    for (const Op op_b : all_ops) {
      for (const index_t padding : {0, 1, 2}) {
        ++turn;
        HalfCase c{.op_a = op_a, .op_b = op_b, .padding = padding};
        c.m = 1 + turn * 3 % places;
        c.n = 1 + turn * 5 % places;
        c.k = turn % 6 == 0 ? 0 : turn % 4 == 0 ? 35 : 1 + turn * 7 % places;
        if (turn % 3 == 0) c.m = c.n = c.k = places;
        if (turn % 5 == 0) c.beta = 0;
        if (turn % 7 == 0) c.alpha = 0;
        HalfFixture<E> fixture(c, static_cast<unsigned>(turn));
        test::run_tiny_halves<Tiny, E, places>(batch_of(fixture));
        EXPECT_TRUE(fixture.check());
      }
    }
  }
}
template <template <class, int, class> class Tiny>
void check_tiny_of_all_sizes() {
  check_tiny<Tiny, StoredAs<HalfType::h>, 4>();
  check_tiny<Tiny, StoredAs<HalfType::h>, 8>();
  check_tiny<Tiny, StoredAs<HalfType::bf>, 16>();
  check_tiny<Tiny, StoredAs<HalfType::hc>, 4>();
  check_tiny<Tiny, StoredAs<HalfType::bfc>, 8>();
  check_tiny<Tiny, StoredAs<HalfType::hc>, 16>();
}
TEST(TinyHalves, ByTensorCores) { check_tiny_of_all_sizes<kernels::block::TinyByTensorCores>(); }
TEST(TinyHalves, ByLanes) { check_tiny_of_all_sizes<kernels::block::TinyByLanes>(); }

// No value of one problem, not even a NaN, reaches another problem of the same warp.
template <template <class, int, class> class Tiny>
void check_neighbours() {
  using E = StoredAs<HalfType::h>;
  constexpr index_t count = 9, order = 4;
  std::vector<E> A(count * order * order), B = A, C = A;
  const auto number = [](double value) { return rounded_to<Half>(static_cast<float>(value)); };
  for (index_t i = 0; i < count * order * order; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool is_bad = i / (order * order) % 2 == 1;
    A[at].part[0] = is_bad ? Half{0x7c00} : number(static_cast<double>(1 + i % 3));
    B[at].part[0] = is_bad ? Half{0x7fff} : number(2);
    C[at].part[0] = Half{0x7fff};
  }
  HalfBatch batch{.stored = HalfType::h};
  auto& products = batch.products;
  products.common = {.routine = Routine::gemm, .type = ScalarType::s, .m = order, .n = order, .k = order};
  products.count = count;
  for (auto* const each : {&products.m, &products.n, &products.k, &products.lda, &products.ldb, &products.ldc})
    each->of_all = order;
  products.A = {.first = A.data(), .distance = order * order};
  products.B = {.first = B.data(), .distance = order * order};
  products.C = {.first = C.data(), .distance = order * order};
  test::run_tiny_halves<Tiny, E, 4>(batch);
  for (index_t i = 0; i < count * order * order; ++i) {
    const float value = to_single(C[static_cast<std::size_t>(i)].part[0]);
    if (i / (order * order) % 2 == 1) {
      EXPECT_TRUE(std::isnan(value)) << i;
      continue;
    }
    float expected = 0;
    for (index_t l = 0; l < order; ++l)
      expected += 2.0F * static_cast<float>(1 + (i / (order * order) * order * order + i % order + l * order) % 3);
    EXPECT_EQ(value, expected) << i;
  }
}
TEST(TinyHalves, NeighboursDoNotMatter) {
  check_neighbours<kernels::block::TinyByTensorCores>();
  check_neighbours<kernels::block::TinyByLanes>();
}

TEST(HalfPlan, TablesAreConsistent) {
  for (const HalfType type : half_types) {
    for (std::size_t at = 0; at < kernels::plan::half_sizes.size(); ++at) {
      const HalfBlocks& blocks = kernels::plan::half_blocks(type, at);
      EXPECT_EQ(blocks.depth % 16, 0);
      EXPECT_EQ(blocks.rows % (16 * blocks.warps_down), 0);
      EXPECT_EQ(blocks.columns % (16 * blocks.warps_across), 0);
      EXPECT_TRUE(blocks.problems == 1 || blocks.warps_down * blocks.warps_across == 1);
    }
    // Unknown sizes, and sizes larger than any place, are not tiny.
    EXPECT_EQ(kernels::plan::choose_tiny(type, 0, 0).way, kernels::plan::TinyWay::blocks);
    EXPECT_EQ(kernels::plan::choose_tiny(type, 3, 0).way, kernels::plan::TinyWay::blocks);
    EXPECT_EQ(kernels::plan::choose_tiny(type, 17, 2).way, kernels::plan::TinyWay::blocks);
    for (index_t n = 1; n <= 16; ++n) {
      const auto choice = kernels::plan::choose_tiny(type, n, 1);
      EXPECT_GE(kernels::plan::tiny_sizes[choice.size_class], n);
    }
  }
  EXPECT_EQ(kernels::plan::class_of_half(0), kernels::plan::middle_half_size);
  EXPECT_EQ(kernels::plan::class_of_half(1), 0U);
  EXPECT_EQ(kernels::plan::class_of_half(33), 2U);
  EXPECT_EQ(kernels::plan::class_of_half(100'000), kernels::plan::half_sizes.size() - 1);
}

}  // namespace half_block_test
}  // namespace tessera
