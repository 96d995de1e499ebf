// Batches of every routine of device_blas.h (src/device_api/routines.def), in every type, variant and form, on every
// implementation. Sizes differ; some are zero or one, and one is much larger than the others. Leading dimensions are
// odd, and addresses vary. Elements that must not be read are NaN. Elements that must not be written are compared byte
// for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "calls/arguments.hpp"
#include "tests/device/backends.hpp"
#include "tests/device_api/batch_runner.hpp"
#include "tests/device_api/implementation.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace batch_conformance_test {

using test::BatchForm;
using test::BatchPlacement;
using test::BatchRunner;
using test::ImplementationKind;
using test::Level3Case;
using test::Level3Fixture;

template <class T>
bool same_bits(const std::vector<T>& one, const std::vector<T>& other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0);
}

class DeviceBatchConformance : public ::testing::TestWithParam<std::tuple<ImplementationKind, Routine>> {
 protected:
  ImplementationKind kind() const { return std::get<ImplementationKind>(GetParam()); }
  Routine routine() const { return std::get<Routine>(GetParam()); }

  /// Sizes of 0 to 9, some of them 0 or 1, with an outlier in the middle.
  std::vector<Level3Case> cases_of_many_sizes(Level3Case c, unsigned seed) const {
    std::mt19937 random(seed);
    std::uniform_int_distribution<index_t> size(0, 9), padding(0, 3);
    const std::size_t count = kind().is_slow() ? 5 : 12, outlier = count / 2;
    const bool is_triangular = tessera::is_triangular(routine());
    std::vector<Level3Case> cases;
    for (std::size_t i = 0; i < count; ++i) {
      c.m = i == 0 ? 0 : size(random);
      c.n = i == 1 ? 1 : size(random);
      c.k = i == 2 ? 0 : size(random);
      c.padding = padding(random);
      if (i == outlier) {
        const index_t order = kind().is_slow() ? 70 : 150;
        c.m = is_triangular ? (c.side == Side::left ? order : 5) : kind().is_slow() ? 20 : 67;
        c.n = is_triangular ? (c.side == Side::left ? 5 : order) : kind().is_slow() ? 37 : 71;
        c.k = 33;
      }
      cases.push_back(c);
    }
    return cases;
  }

  template <Scalar T>
  static std::vector<Level3Fixture<T>> fixtures_of(const std::vector<Level3Case>& cases) {
    std::vector<Level3Fixture<T>> fixtures;
    for (const Level3Case& c : cases) fixtures.emplace_back(c, static_cast<unsigned>(fixtures.size()));
    return fixtures;
  }

  template <Scalar T>
  static void check(const std::vector<Level3Fixture<T>>& fixtures, const std::vector<index_t>& info) {
    for (std::size_t i = 0; i < fixtures.size(); ++i) EXPECT_TRUE(fixtures[i].check()) << "problem " << i;
    for (const index_t of_problem : info) EXPECT_EQ(of_problem, 0);
  }

  /// Runs one in `step` of the variants in every type, another one each time, with the factors in turn.
  template <class F>
  void for_some(int step, F&& f) {
    for (const ScalarType type : test::types_of(routine())) {
      test::for_each_variant(type, {.routine = routine()}, [&](Level3Case c) {
        if (turn_++ % step != 0 || HasFailure()) return;
        ++count_;
        SCOPED_TRACE("turn " + std::to_string(count_));
        const std::vector<AnyScalar> factors = test::factors(type);
        c.alpha = factors[count_ % 3 == 0 ? 1 : 2];
        c.beta = factors[static_cast<std::size_t>(count_ / 2 % 3)];
        f(type, c, count_);
      });
    }
  }

 private:
  int turn_ = 0;
  int count_ = 0;
};

TEST_P(DeviceBatchConformance, AllVariantsOfVariableSize) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  const auto run = [&](ScalarType type, const Level3Case& c, int turn) {
    const BatchPlacement placement{.form = turn % 2 == 0 ? BatchForm::sizes : BatchForm::wide_sizes,
                                   .with_bounds = turn % 3 != 0,
                                   .with_info = turn % 5 < 3,
                                   .with_workspace = turn % 4 < 2,
                                   .misaligned = turn % 7 < 4};
    dispatch(type, [&]<Scalar T>(T) {
      auto fixtures = fixtures_of<T>(cases_of_many_sizes(c, static_cast<unsigned>(turn)));
      const std::vector<index_t> info = runner.run(fixtures, placement);
      EXPECT_EQ(info.size(), placement.with_info ? fixtures.size() : 0);
      check(fixtures, info);
    });
  };
  if (kind().is_slow()) return for_some(7, run);
  for (int round = 0; round < 3; ++round) for_some(1, run);  // with other places and sizes each time
}

TEST_P(DeviceBatchConformance, AllVariantsOfOneSize) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  for_some(kind().is_slow() ? 29 : 2, [&](ScalarType type, Level3Case c, int turn) {
    c.m = 1 + turn * 7 % 23;
    c.n = 1 + turn * 5 % 19;
    c.k = turn * 3 % 21;
    c.padding = turn % 3;
    for (const BatchForm form : {BatchForm::pointers, BatchForm::strides}) {
      const BatchPlacement placement{
          .form = form, .with_workspace = turn % 4 < 2, .misaligned = turn % 3 != 0, .shares_a = turn % 5 == 0};
      dispatch(type, [&]<Scalar T>(T) {
        std::vector<Level3Fixture<T>> fixtures;
        for (unsigned i = 0; i < 3; ++i) fixtures.emplace_back(c, placement.shares_a ? 0 : i);
        check(fixtures, runner.run(fixtures, placement));
      });
    }
  });
}

// Sizes at which implementations may pass products of one size to another library.
TEST_P(DeviceBatchConformance, LargerProductsOfOneSize) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  if (routine() != Routine::gemm) return;
  BatchRunner runner(*implementation);
  int turn = 0;
  for (const ScalarType type : test::types_of(routine())) {
    for (const Op op_a : {Op::no_trans, Op::trans, Op::conj_trans}) {
      for (const Op op_b : {Op::no_trans, Op::conj_trans}) {
        if (kind().is_slow() && ++turn % 5 != 0) continue;
        const index_t size = type == ScalarType::d ? 80 : 40;
        Level3Case c{.routine = routine(), .m = size, .n = size + 5, .k = size - 3, .padding = 3};
        c.op_a = op_a;
        c.op_b = op_b;
        c.beta = op_a == Op::trans ? AnyScalar(0) : AnyScalar(-0.5);
        for (const BatchForm form : {BatchForm::pointers, BatchForm::strides}) {
          dispatch(type, [&]<Scalar T>(T) {
            std::vector<Level3Fixture<T>> fixtures;
            const bool shares_a = form == BatchForm::strides && op_b == Op::no_trans;
            for (unsigned i = 0; i < 3; ++i) fixtures.emplace_back(c, shares_a ? 0 : i);
            check(fixtures, runner.run(fixtures, {.form = form, .shares_a = shares_a}));
          });
        }
      }
    }
  }
}

// Only that problem is reported and left alone; all others are computed.
TEST_P(DeviceBatchConformance, OneBadProblemAmongMany) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  int turn = 0;
  const std::span<const ScalarType> types = test::types_of(routine());
  for (const Parameter parameter :
       {Parameter::m, Parameter::n, Parameter::k, Parameter::lda, Parameter::ldb, Parameter::ldc}) {
    const int position = position_of(routine(), parameter);
    if (position == 0) continue;
    for (const bool is_last : {false, true}) {
      if (++turn % 2 == 0 && kind().is_slow()) continue;
      dispatch(types[static_cast<std::size_t>(turn) % types.size()], [&]<Scalar T>(T) {
        const Level3Case c{.routine = routine(), .side = turn % 4 < 2 ? Side::left : Side::right, .beta = -0.5};
        auto fixtures = fixtures_of<T>(cases_of_many_sizes(c, 3));
        const std::size_t bad = is_last ? fixtures.size() - 1 : 1;
        const BatchPlacement placement{.form = turn % 3 == 0 ? BatchForm::wide_sizes : BatchForm::sizes,
                                       .with_bounds = turn % 2 == 0,
                                       .bad = BatchPlacement::Bad{bad, parameter}};
        const std::vector<index_t> info = runner.run(fixtures, placement);
        for (std::size_t i = 0; i < fixtures.size(); ++i) {
          EXPECT_EQ(info[i], i == bad ? -position : 0);
          if (i == bad) continue;
          EXPECT_TRUE(fixtures[i].check()) << "problem " << i;
        }
      });
    }
  }
}

// The neighbours of a problem do not matter either, as long as bounds are the same.
TEST_P(DeviceBatchConformance, BitsDoNotDependOnThePlace) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  for_some(kind().is_slow() ? 31 : 5, [&](ScalarType type, const Level3Case& c, int turn) {
    dispatch(type, [&]<Scalar T>(T) {
      const auto problems = fixtures_of<T>(cases_of_many_sizes(c, static_cast<unsigned>(turn)));
      BatchPlacement placement{.with_bounds = turn % 2 == 0};
      auto fixtures = problems;
      runner.run(fixtures, placement);
      check(fixtures, {});
      auto shuffled = problems;
      placement.order.resize(problems.size());
      std::iota(placement.order.begin(), placement.order.end(), 0);
      std::shuffle(placement.order.begin(), placement.order.end(), std::mt19937(static_cast<unsigned>(turn)));
      runner.run(shuffled, placement);
      for (std::size_t i = 0; i < problems.size(); ++i) EXPECT_TRUE(same_bits(fixtures[i].C(), shuffled[i].C())) << i;
      if (!placement.with_bounds) return;
      Level3 bounds;
      for (auto fixture : problems) {
        const Level3 call = fixture.problem();
        bounds.m = std::max(bounds.m, call.m);
        bounds.n = std::max(bounds.n, call.n);
        bounds.k = std::max(bounds.k, call.k);
      }
      for (const std::size_t i : {std::size_t{1}, problems.size() / 2}) {
        std::vector<Level3Fixture<T>> alone{problems[i]};
        runner.run(alone, {.bounds = bounds});
        EXPECT_TRUE(same_bits(fixtures[i].C(), alone.front().C())) << i << " alone";
      }
    });
  });
}

// A and B do not exist and are not read. C is scaled, and X becomes zero.
TEST_P(DeviceBatchConformance, AlphaZeroNeedsNoOperands) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  BatchRunner runner(*implementation);
  int turn = 0;
  // The address cannot be read. Code of thread blocks does not run then, because the interface handles the case.
  const void* const unreadable = kind().is_library() ? reinterpret_cast<const void*>(16) : nullptr;
  for (const ScalarType type : test::types_of(routine())) {
    for (const BatchForm form : test::all_batch_forms) {
      const bool is_of_one_size = form == BatchForm::pointers || form == BatchForm::strides;
      for (const bool without_operands : {false, true}) {
        const void* const no_operands = turn % 2 == 0 ? unreadable : nullptr;
        if (++turn % 5 != 0 && kind().is_slow()) continue;
        dispatch(type, [&]<Scalar T>(T) {
          Level3Case c{.routine = routine(), .m = 7, .n = 5, .k = 4, .alpha = 0, .beta = -0.5};
          auto fixtures = fixtures_of<T>(is_of_one_size ? std::vector<Level3Case>(3, c) : cases_of_many_sizes(c, 1));
          check(fixtures,
                runner.run(fixtures, {.form = form, .without_operands = without_operands, .no_operands = no_operands}));
          if (!is_of_one_size || !fixtures.front().problem().has_k()) return;
          c.k = 0;
          c.alpha = std::numeric_limits<double>::quiet_NaN();
          fixtures = fixtures_of<T>(std::vector<Level3Case>(3, c));
          check(fixtures,
                runner.run(fixtures, {.form = form, .without_operands = without_operands, .no_operands = no_operands}));
        });
      }
    }
  }
}

// More problems than any dimension of a grid has, with sizes of 0 to 3. Each of a few problems occurs many times, with
// a C of its own, and has the same bits everywhere.
TEST_P(DeviceBatchConformance, ManyTinyProblems) {
  TESSERA_OPEN_IMPLEMENTATION(implementation, test::open_implementation, kind());
  const std::size_t distinct = kind().is_slow() ? 7 : 100, count = kind().is_slow() ? 20 : 70'000;
  const auto types = test::types_of(routine());
  dispatch(types[static_cast<std::size_t>(routine()) % types.size()], [&]<Scalar T>(T) {
    std::mt19937 random(1);
    std::uniform_int_distribution<index_t> size(0, 3), padding(0, 2);
    std::vector<Level3Fixture<T>> problems;
    for (std::size_t i = 0; i < distinct; ++i) {
      Level3Case c{.routine = routine(), .uplo = Uplo::upper, .op_a = Op::trans, .alpha = -1.5, .beta = 0.5};
      c.m = size(random);
      c.n = size(random);
      c.k = size(random);
      c.padding = padding(random);
      problems.emplace_back(c, static_cast<unsigned>(i));
    }
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = i * 3 % distinct;
    BatchRunner runner(*implementation);
    for (const bool with_bounds : {false, true}) {
      auto fixtures = problems;
      const BatchPlacement placement{
          .with_bounds = with_bounds, .with_workspace = !with_bounds, .dense = true, .order = order};
      check(fixtures, runner.run(fixtures, placement));
    }
  });
}

std::string name_of_instance(const ::testing::TestParamInfo<DeviceBatchConformance::ParamType>& info) {
  return name_of(std::get<Routine>(info.param));
}

#define TESSERA_INSTANTIATE_BATCHES(prefix, kind)                                                               \
  INSTANTIATE_TEST_SUITE_P(prefix, DeviceBatchConformance,                                                      \
                           ::testing::Combine(::testing::Values(ImplementationKind{ImplementationKind::kind}),  \
                                              ::testing::ValuesIn(test::distinct(test::all_batch_routines()))), \
                           name_of_instance)
TESSERA_INSTANTIATE_BATCHES(Reference, reference);
TESSERA_INSTANTIATE_BATCHES(Block, block);
#if TESSERA_HAS_CUDA
TESSERA_INSTANTIATE_BATCHES(Cuda, cuda);
TESSERA_INSTANTIATE_BATCHES(Standin, cuda_standin);
#endif

}  // namespace batch_conformance_test
}  // namespace tessera
