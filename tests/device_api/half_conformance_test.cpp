// Batches of products of 16-bit numbers (device_half.h), in every type, transposition and form, on every
// implementation. Elements that must not be read are NaN. Elements that must not be written are compared byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/half.hpp"
#include "tests/device/backends.hpp"
#include "tests/device_api/batch_runner.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/half_problem.hpp"

namespace tessera {
namespace half_conformance_test {

using test::BatchForm;
using test::BatchPlacement;
using test::BatchRunner;
using test::HalfCase;
using test::HalfFixture;
using test::ImplementationKind;

constexpr Op all_ops[] = {Op::no_trans, Op::trans, Op::conj_trans};
constexpr BatchForm forms_of_one_size[] = {BatchForm::pointers, BatchForm::strides};

class DeviceHalfConformance : public ::testing::TestWithParam<std::tuple<ImplementationKind, HalfType>> {
 protected:
  ImplementationKind kind() const { return std::get<ImplementationKind>(GetParam()); }
  HalfType type() const { return std::get<HalfType>(GetParam()); }
  bool is_slow() const { return kind().is_slow(); }

  template <class E>
  static std::vector<HalfFixture<E>> fixtures_of(const std::vector<HalfCase>& cases) {
    std::vector<HalfFixture<E>> fixtures;
    for (const HalfCase& c : cases) fixtures.emplace_back(c, static_cast<unsigned>(fixtures.size()));
    return fixtures;
  }
  template <class E>
  static void check(const std::vector<HalfFixture<E>>& fixtures, const std::vector<index_t>& info) {
    for (const HalfFixture<E>& fixture : fixtures) EXPECT_TRUE(fixture.check());
    for (const index_t of_problem : info) EXPECT_EQ(of_problem, 0);
  }

  /// Sizes of 0 to `most`, some of them 0, with an outlier in the middle.
  std::vector<HalfCase> cases_of_many_sizes(HalfCase c, unsigned seed, index_t most, bool has_outlier) const {
    std::mt19937 random(seed);
    std::uniform_int_distribution<index_t> size(0, most), padding(0, 3);
    const std::size_t count = is_slow() ? 5 : 12;
    std::vector<HalfCase> cases;
    for (std::size_t i = 0; i < count; ++i) {
      c.m = i == 0 ? 0 : size(random);
      c.n = i == 1 ? 1 : size(random);
      c.k = i == 2 ? 0 : size(random);
      c.padding = padding(random);
      if (has_outlier && i == count / 2) {
        c.m = is_slow() ? 20 : 131;
        c.n = is_slow() ? 37 : 71;
        c.k = 33;
      }
      cases.push_back(c);
    }
    return cases;
  }

  /// Calls f(turn, case) for every transposition, with different factors.
  template <class F>
  void for_each_variant(F f) const {
    int turn = 0;
    for (const Op op_a : all_ops) {
      for (const Op op_b : all_ops) {
        for (const AnyScalar beta : {AnyScalar(0), AnyScalar(1), AnyScalar(-0.5, 0.25)}) {
          HalfCase c{.op_a = op_a, .op_b = op_b, .beta = beta};
          if (turn % 5 == 0) c.alpha = 1;
          f(turn++, c);
        }
      }
    }
  }
};

// Sizes from 1 to 130 (all of them on GPUs), and rank-16 updates. Leading dimensions and addresses are even, odd and
// aligned.
TEST_P(DeviceHalfConformance, ProductsOfOneSize) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  dispatch(type(), [&]<class E>(E) {
    const bool is_quick = kind().name == ImplementationKind::cuda;
    for (index_t n = 1; n <= 130; n += is_slow() ? 1 + n / 2 : is_quick || n < 20 ? 1 : 11) {
      for (const bool is_square : {true, false}) {
        const auto turn = static_cast<unsigned>(2 * n + (is_square ? 0 : 1));
        HalfCase c{.op_a = all_ops[turn % 3], .op_b = all_ops[turn / 3 % 3], .m = n, .n = n, .k = n};
        c.padding = turn % 4 == 0 ? 0 : static_cast<index_t>(turn % 8);
        if (!is_square) c.k = 16;
        if (turn % 3 == 2) c.beta = 0;
        const BatchForm form = forms_of_one_size[turn % 2];
        const BatchPlacement placement{.form = form, .misaligned = turn / 4 % 2 == 1, .shares_a = turn % 11 == 0};
        std::vector<HalfFixture<E>> fixtures;
        for (unsigned i = 0; i < (is_slow() ? 1 : 3); ++i) fixtures.emplace_back(c, placement.shares_a ? 0 : i);
        check(fixtures, runner.run(fixtures, placement));
      }
    }
  });
}

// Aligned for the widest loads, and large: another library may compute these products, and must round as all others do.
TEST_P(DeviceHalfConformance, AlignedProductsOfOneSize) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  dispatch(type(), [&]<class E>(E) {
    for_each_variant([&](int turn, HalfCase c) {
      const bool is_quick = kind().name == ImplementationKind::cuda;
      if (!is_quick && turn % 5 != 0) return;
      const index_t size = is_slow() ? 24 : is_quick ? 64 + turn % 11 * 8 : 96;
      c.m = size;
      c.n = size + turn % 3;
      c.k = is_quick && turn % 4 == 3 ? 512 : size + 8;
      c.padding = turn % 2 * 8;
      // Makes all leading dimensions multiples of 8.
      if (c.op_b != Op::no_trans) c.n = size;
      for (const BatchForm form : forms_of_one_size) {
        auto fixtures = fixtures_of<E>({c, c});
        check(fixtures, runner.run(fixtures, {.form = form, .gap = 8}));
      }
    });
  });
}

TEST_P(DeviceHalfConformance, EveryVariantInEveryForm) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  dispatch(type(), [&]<class E>(E) {
    for_each_variant([&](int turn, HalfCase c) {
      const bool is_tiny = turn % 2 == 0;
      for (const BatchForm form : {BatchForm::sizes, BatchForm::wide_sizes}) {
        if (is_slow() && (turn % 3 != 0 || form == BatchForm::wide_sizes)) continue;
        auto fixtures =
            fixtures_of<E>(cases_of_many_sizes(c, static_cast<unsigned>(turn), is_tiny ? 3 + turn % 14 : 60, !is_tiny));
        const BatchPlacement placement{
            .form = form, .with_bounds = turn % 4 != 3, .with_info = turn % 3 != 1, .misaligned = turn % 3 == 2};
        check(fixtures, runner.run(fixtures, placement));
      }
      // Rectangles with a side of 1, or a short or long one.
      c.m = 1 + turn * 7 % 40;
      c.n = 1 + turn * 11 % 19;
      c.k = turn % 6 == 5 ? 0 : 1 + turn * 13 % (is_slow() ? 40 : 300);
      c.padding = turn % 4;
      if (is_slow() && turn % 3 != 1) return;
      for (const BatchForm form : forms_of_one_size) {
        auto fixtures = fixtures_of<E>({c, c, c});
        check(fixtures, runner.run(fixtures, {.form = form, .misaligned = turn % 3 == 1}));
      }
    });
  });
}

// Results on both sides of the largest number, infinite and undefined elements, and subnormal ones.
TEST_P(DeviceHalfConformance, NumbersAtTheEndsOfTheirRange) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  const bool is_half = type() == HalfType::h || type() == HalfType::hc;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  dispatch(type(), [&]<class E>(E) {
    for (const index_t size : {3, 13, 40}) {
      HalfCase c{.m = size, .n = size, .k = is_half ? size : 1, .alpha = 2, .beta = 0};
      // sums of bfloat16 must not overflow in single precision
      c.scale = is_half ? 60000 : E::parts == 2 ? 1e38 : 3e38;
      auto fixtures = fixtures_of<E>({c, c});
      check(fixtures, runner.run(fixtures, {.form = BatchForm::pointers}));
      c.k = size;
      c.scale = is_half ? 0x1p-20 : 0x1p-126;
      fixtures = fixtures_of<E>({c, c});
      check(fixtures, runner.run(fixtures, {.form = BatchForm::strides}));
      // 0 times infinity, and the largest number times 1 and more.
      c.scale = 1;
      c.has_special = true;
      for (const auto& [a, b] : {std::pair(infinity, 0.0), std::pair(infinity, -2.0), std::pair(0.0, -infinity)}) {
        if (E::parts == 2) continue;  // the other parts depend on the order of products
        c.first_of_a = a;
        c.first_of_b = b;
        fixtures = fixtures_of<E>({c, c, c});
        check(fixtures, runner.run(fixtures, {.form = BatchForm::strides}));
      }
    }
  });
}

// Only that problem is reported and left alone; all others are computed.
TEST_P(DeviceHalfConformance, OneBadProblemAmongMany) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  int turn = 0;
  dispatch(type(), [&]<class E>(E) {
    for (const Parameter parameter :
         {Parameter::m, Parameter::n, Parameter::k, Parameter::lda, Parameter::ldb, Parameter::ldc}) {
      for (const bool is_tiny : {false, true}) {
        ++turn;
        auto fixtures = fixtures_of<E>(cases_of_many_sizes({}, 3, is_tiny ? 7 : 30, !is_tiny));
        const std::size_t bad = turn % 2 == 0 ? fixtures.size() - 1 : 1;
        const BatchPlacement placement{.form = turn % 3 == 0 ? BatchForm::wide_sizes : BatchForm::sizes,
                                       .bad = BatchPlacement::Bad{bad, parameter}};
        const std::vector<index_t> info = runner.run(fixtures, placement);
        for (std::size_t i = 0; i < fixtures.size(); ++i) {
          EXPECT_EQ(info[i], i == bad ? -position_of(Routine::gemm, parameter) : 0);
          if (i == bad) continue;
          EXPECT_TRUE(fixtures[i].check()) << "problem " << i;
        }
      }
    }
  });
}

// The neighbours of a problem do not matter either, as long as bounds are the same.
TEST_P(DeviceHalfConformance, BitsDoNotDependOnThePlace) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  dispatch(type(), [&]<class E>(E) {
    for (const index_t most : {4, 8, 16, 50}) {
      const auto problems = fixtures_of<E>(cases_of_many_sizes({.op_b = Op::trans}, 7, most, most > 16));
      BatchPlacement placement;
      placement.bounds = Level3{.m = most > 16 ? 131 : most, .n = most > 16 ? 131 : most, .k = 131};
      auto fixtures = problems, shuffled = problems;
      runner.run(fixtures, placement);
      check(fixtures, {});
      placement.order.resize(problems.size());
      std::iota(placement.order.begin(), placement.order.end(), 0);
      std::shuffle(placement.order.begin(), placement.order.end(), std::mt19937(1));
      runner.run(shuffled, placement);
      for (std::size_t i = 0; i < problems.size(); ++i) {
        const auto &one = fixtures[i].C(), &other = shuffled[i].C();
        EXPECT_TRUE(one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(E)) == 0) << i;
      }
    }
  });
}

// A and B do not exist, and are not read.
TEST_P(DeviceHalfConformance, AlphaZeroNeedsNoOperands) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  const void* const unreadable = kind().is_library() ? reinterpret_cast<const void*>(16) : nullptr;
  dispatch(type(), [&]<class E>(E) {
    for (const BatchForm form : test::all_batch_forms) {
      for (const index_t size : {6, 30}) {
        for (const AnyScalar beta : {AnyScalar(0), AnyScalar(-0.5), AnyScalar(1)}) {
          HalfCase c{.m = size, .n = size - 1, .k = 4, .alpha = 0, .beta = beta};
          for (const void* const operands : {unreadable, static_cast<const void*>(nullptr)}) {
            auto fixtures = fixtures_of<E>({c, c, c});
            check(fixtures, runner.run(fixtures, {.form = form, .without_operands = true, .no_operands = operands}));
          }
          c.alpha = std::numeric_limits<double>::quiet_NaN();
          c.k = 0;
          auto fixtures = fixtures_of<E>({c, c});
          check(fixtures, runner.run(fixtures, {.form = form}));
        }
      }
    }
  });
}

// More problems than any dimension of a grid has. Each of a few problems occurs many times, and has the same bits
// everywhere.
TEST_P(DeviceHalfConformance, ManyTinyProblems) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  const std::size_t distinct = is_slow() ? 7 : 100, count = is_slow() ? 40 : 70'000;
  dispatch(type(), [&]<class E>(E) {
    std::vector<HalfCase> cases;
    std::mt19937 random(1);
    std::uniform_int_distribution<index_t> size(0, 3), padding(0, 2);
    for (std::size_t i = 0; i < distinct; ++i)
      cases.push_back(
          {.op_a = Op::trans, .m = size(random), .n = size(random), .k = size(random), .padding = padding(random)});
    const auto problems = fixtures_of<E>(cases);
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = i * 3 % distinct;
    BatchRunner runner(*implementation);
    for (const bool with_bounds : {false, true}) {
      auto fixtures = problems;
      check(fixtures, runner.run(fixtures, {.with_bounds = with_bounds, .dense = true, .order = order}));
    }
  });
}

std::string name_of_instance(const ::testing::TestParamInfo<DeviceHalfConformance::ParamType>& info) {
  return letters(std::get<HalfType>(info.param));
}

#define TESSERA_INSTANTIATE_HALVES(prefix, kind)                                                               \
  INSTANTIATE_TEST_SUITE_P(prefix, DeviceHalfConformance,                                                      \
                           ::testing::Combine(::testing::Values(ImplementationKind{ImplementationKind::kind}), \
                                              ::testing::ValuesIn(half_types)),                                \
                           name_of_instance)
TESSERA_INSTANTIATE_HALVES(Reference, reference);
TESSERA_INSTANTIATE_HALVES(Block, block);
#if TESSERA_HAS_CUDA
TESSERA_INSTANTIATE_HALVES(Cuda, cuda);
TESSERA_INSTANTIATE_HALVES(Standin, cuda_standin);
#endif

}  // namespace half_conformance_test
}  // namespace tessera
