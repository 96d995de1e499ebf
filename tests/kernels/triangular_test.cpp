// Triangular solves and products in place, as far as they are plain C++: how a triangle is split, and what the threads of a block compute. The
// latter runs on a machine made of host threads, one per thread of the block, that exchange values as a warp does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/block/trmm_strip.hpp"
#include "kernels/block/trsm_strip.hpp"
#include "kernels/plan/triangular_recursion.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/level3_problem.hpp"

namespace tessera {
namespace {

using kernels::plan::run_in_parts;
using test::Level3Case;
using test::Level3Fixture;

/// A barrier that is told anew each time how many threads it is for, as those of a thread block are.
class CountedBarrier {
 public:
  void arrive(int threads) {
    const std::lock_guard lock(mutex_);
    count(threads);
  }
  void await(int threads) {
    std::unique_lock lock(mutex_);
    const int phase = phase_;
    count(threads);
    next_phase_.wait(lock, [&] { return phase_ != phase; });
  }

 private:
  void count(int threads) {
    if (++arrived_ < threads) return;
    arrived_ = 0;
    ++phase_;
    next_phase_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable next_phase_;
  int arrived_ = 0, phase_ = 0;
};

/// One thread block: what its threads share.
template <int warps>
struct HostBlock {
  struct Warp {
    std::barrier<> all_lanes{32};
    // A lane that writes into one of the two has passed a barrier that all lanes reach after they have read it.
    std::array<std::array<std::array<double, 12>, 32>, 2> exchange{};
  };
  std::array<Warp, warps> of_warp;
  std::array<CountedBarrier, 2> barriers;
};

template <int warps>
class HostWarps {
 public:
  HostWarps(HostBlock<warps>& block, int thread) : block_(&block), thread_(thread) {}

  int lane() const { return thread_ % 32; }
  int warp() const { return thread_ / 32; }
  void sync_warp() { mine().all_lanes.arrive_and_wait(); }
  void arrive(int barrier, int count) { block_->barriers[static_cast<std::size_t>(barrier)].arrive(32 * count); }
  void await(int barrier, int count) { block_->barriers[static_cast<std::size_t>(barrier)].await(32 * count); }

  template <class R>
  R shuffle(R value, int from) {
    return static_cast<R>(exchange({static_cast<double>(value)})[static_cast<std::size_t>(from)][0]);
  }

  bool any(bool value) {
    const auto& values = exchange({value ? 1.0 : 0.0});
    return std::any_of(values.begin(), values.end(), [](const auto& of_lane) { return of_lane[0] != 0; });
  }

  void multiply(double (&upper)[2], double (&lower)[2], const double (&a)[2][4], const double (&b)[4]) {
    const auto& values =
        exchange({a[0][0], a[0][1], a[0][2], a[0][3], a[1][0], a[1][1], a[1][2], a[1][3], b[0], b[1], b[2], b[3]});
    const std::size_t group = static_cast<std::size_t>(lane()) / 4;
    const std::size_t member = static_cast<std::size_t>(lane()) % 4;
    for (std::size_t s = 0; s < 4; ++s) {
      for (std::size_t q = 0; q < 4; ++q) {
        for (std::size_t c = 0; c < 2; ++c) {
          const double x = values[4 * (2 * member + c) + q][8 + s];
          upper[c] += values[4 * group + q][s] * x;
          lower[c] += values[4 * group + q][4 + s] * x;
        }
      }
    }
  }

 private:
  typename HostBlock<warps>::Warp& mine() { return block_->of_warp[static_cast<std::size_t>(warp())]; }

  const std::array<std::array<double, 12>, 32>& exchange(const std::array<double, 12>& values) {
    auto& lanes = mine().exchange[turn_];
    turn_ = 1 - turn_;
    lanes[static_cast<std::size_t>(lane())] = values;
    mine().all_lanes.arrive_and_wait();
    return lanes;
  }

  HostBlock<warps>* block_;
  int thread_;
  std::size_t turn_ = 0;
};

template <Scalar T, int columns>
using SmallStrip = kernels::block::StripShape<decltype(std::abs(T{})), std::floating_point<T> ? 1 : 2, 4, columns>;

/// As the kernel does it, one block after the other.
template <Scalar T, int columns>
void run_by_strips(const Level3& call) {
  using Shape = SmallStrip<T, columns>;
  const auto system = kernels::block::system_of<typename Shape::R, Shape::parts>(call);
  ASSERT_LE(system.order, Shape::rows);
  for (index_t column = 0; column < system.columns; column += Shape::columns) {
    const auto memory = std::make_unique<kernels::block::StripMemory<Shape>>();
    HostBlock<Shape::warps> block;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < Shape::threads; ++thread) {
      threads.emplace_back([&, thread] {
        using Machine = HostWarps<Shape::warps>;
        const Machine machine(block, thread);
        if (call.routine == Routine::trsm)
          kernels::block::StripSolver<Shape, Machine>(system, *memory, column, machine).run();
        else
          kernels::block::StripMultiplier<Shape, Machine>(system, *memory, column, machine).run();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

template <Scalar T>
void check_strips(const Level3Case& c) {
  Level3Fixture<T> narrow(c, 1);
  run_by_strips<T, 16>(narrow.problem());
  EXPECT_TRUE(narrow.check());
  Level3Fixture<T> wide(c, 1);
  run_by_strips<T, 32>(wide.problem());
  EXPECT_TRUE(wide.check());
}

constexpr Routine triangular_routines[] = {Routine::trsm, Routine::trmm};

Level3Case triangular_case(Routine routine, Side side, index_t order, index_t columns) {
  Level3Case c{.routine = routine, .side = side};
  c.m = side == Side::left ? order : columns;
  c.n = side == Side::left ? columns : order;
  return c;
}

class TriangularStrip : public ::testing::TestWithParam<Routine> {};
INSTANTIATE_TEST_SUITE_P(Routines, TriangularStrip, ::testing::ValuesIn(triangular_routines),
                         [](const auto& routine) { return name_of(routine.param); });

TEST_P(TriangularStrip, AllVariants) {
  for (const Side side : test::all_sides) {
    const Level3Case base = triangular_case(GetParam(), side, 37, 3);
    test::for_each_variant(ScalarType::z, base, [&](Level3Case c) {
      if (c.side != side) return;
      c.alpha = {0.5, -1.25};
      check_strips<std::complex<double>>(c);
    });
  }
}

TEST_P(TriangularStrip, AllTypesAndSizes) {
  for (const Side side : test::all_sides) {
    for (const index_t order : {1, 15, 16, 17, 33, 64}) {
      Level3Case c = triangular_case(GetParam(), side, order, order == 33 ? 35 : 2);
      c.uplo = order % 2 == 0 ? Uplo::upper : Uplo::lower;
      c.op_a = order % 3 == 0 ? Op::conj_trans : Op::no_trans;
      c.diag = order == 17 ? Diag::unit : Diag::non_unit;
      for (const ScalarType type : test::all_types) {
        dispatch(type, [&]<Scalar T>(T) { check_strips<T>(c); });
      }
    }
  }
}

// Two blocks of 16 rows, so that blocks with small pivots are updated and update others.
TEST(TrsmStrip, WhateverTheElements) {
  using test::Triangle;
  for (const Triangle triangle : {Triangle::ones, Triangle::graded, Triangle::kahan, Triangle::subnormal}) {
    for (const ScalarType type : test::all_types) {
      for (const Uplo uplo : test::all_uplos) {
        Level3Case c = triangular_case(Routine::trsm, uplo == Uplo::lower ? Side::left : Side::right, 29, 2);
        c.uplo = uplo;
        c.op_a = uplo == Uplo::lower ? Op::no_trans : Op::conj_trans;
        c.triangle = triangle;
        dispatch(type, [&]<Scalar T>(T) {
          Level3Fixture<T> fixture(c, 1);
          run_by_strips<T, 16>(fixture.problem());
          EXPECT_TRUE(fixture.check());
        });
      }
    }
  }
}

// Who inverts the triangle and multiplies has a small residual where the triangle is well conditioned, and only there.
TEST(TrsmResidual, TellsSubstitutionFromInversion) {
  const auto passes = [](test::Triangle triangle) {
    constexpr index_t order = 70;
    Level3Case c = triangular_case(Routine::trsm, Side::left, order, 5);
    c.triangle = triangle;
    Level3Fixture<float> fixture(c, 1);
    const Level3 solve = fixture.problem();
    std::vector<float> inverse(order * order);
    for (std::size_t i = 0; i < order; ++i) inverse[i * (order + 1)] = 1;
    Level3 invert = solve;
    invert.n = invert.ldc = order;
    invert.C = inverse.data();
    kernels::reference_level3(invert);
    const std::vector<float> B = fixture.C();
    kernels::reference_level3({.routine = Routine::gemm,
                               .type = ScalarType::s,
                               .m = order,
                               .n = 5,
                               .k = order,
                               .A = inverse.data(),
                               .lda = order,
                               .B = B.data(),
                               .ldb = solve.ldc,
                               .C = solve.C,
                               .ldc = solve.ldc});
    return static_cast<bool>(fixture.check());
  };
  EXPECT_TRUE(passes(test::Triangle::dominant));
  for (const test::Triangle triangle : test::harder_triangles)
    EXPECT_FALSE(passes(triangle)) << static_cast<int>(triangle);
}

// The second element is (b - l x) / p with b / p too large for the type, and zero all the same.
TEST(TrsmStrip, SurvivesQuotientsThatAreTooLarge) {
  const std::vector<double> A = {1, 1, 0, 0x1p-900};
  std::vector<double> B = {0x1p+900, 0x1p+900};
  run_by_strips<double, 16>(
      {.routine = Routine::trsm, .m = 2, .n = 1, .A = A.data(), .lda = 2, .C = B.data(), .ldc = 2});
  EXPECT_EQ(B[0], 0x1p+900);
  EXPECT_EQ(B[1], 0);
}

// What stands beside the triangle enters no product: an Inf of X reaches only what depends on it.
TEST(TrmmStrip, KeepsAnInfinityWhereItBelongs) {
  constexpr index_t order = 20, at = 9;
  const std::vector<double> A(order * order, 1.0);
  std::vector<double> B(order, 1.0);
  B[at] = std::numeric_limits<double>::infinity();
  run_by_strips<double, 16>({.routine = Routine::trmm,
                             .m = order,
                             .n = 1,
                             .A = A.data(),
                             .lda = order,
                             .B = B.data(),
                             .ldb = order,
                             .C = B.data(),
                             .ldc = order});
  for (index_t i = 0; i < order; ++i) {
    const double expected = i < at ? static_cast<double>(i + 1) : std::numeric_limits<double>::infinity();
    EXPECT_EQ(B[static_cast<std::size_t>(i)], expected) << i;
  }
}

TEST(TriangularRecursion, PartsGiveTheWhole) {
  for (const Routine routine : triangular_routines) {
    for (const Side side : test::all_sides) {
      for (const index_t order : {1, 4, 5, 8, 9, 23, 40}) {
        for (const ScalarType type : {ScalarType::d, ScalarType::z}) {
          dispatch(type, [&]<Scalar T>(T) {
            test::for_each_variant(type, triangular_case(routine, side, order, 3), [&](Level3Case c) {
              if (c.side != side) return;
              c.alpha = test::factors(type).back();
              Level3Fixture<T> fixture(c, 1);
              index_t leaves = 0;
              run_in_parts(fixture.problem(), 4, [&](const Level3& part) {
                if (part.routine == routine) {
                  ++leaves;
                  EXPECT_LE(side == Side::left ? part.m : part.n, 4);
                }
                kernels::reference_level3(part);
              });
              EXPECT_EQ(leaves, (order + 3) / 4);
              EXPECT_TRUE(fixture.check());
            });
          });
        }
      }
    }
  }
}

// Whichever triangle it is: what is left over is at its end.
TEST(TriangularRecursion, PartsBeginAtMultiplesOfTheLeaf) {
  constexpr index_t leaf = 8;
  for (const Routine routine : triangular_routines) {
    for (const bool lower : {false, true}) {
      for (index_t order = 1; order <= 5 * leaf; ++order) {
        index_t rows_of_leaves = 0;
        kernels::plan::for_each_part(routine, lower, order, leaf, [&](const kernels::plan::TriangularPart& part) {
          EXPECT_EQ(part.row % leaf, 0);
          EXPECT_EQ(part.from_row % leaf, 0);
          EXPECT_TRUE(part.rows % leaf == 0 || part.row + part.rows == order);
          EXPECT_TRUE(part.from % leaf == 0 || part.from_row + part.from == order);
          if (part.is_leaf) rows_of_leaves += part.rows;
        });
        EXPECT_EQ(rows_of_leaves, order);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
