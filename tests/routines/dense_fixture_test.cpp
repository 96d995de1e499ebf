// The check of whole problems by itself: what it must notice, and whom it blames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "calls/lapack_call.hpp"
#include "tests/dense_fixture.hpp"

namespace tessera {
namespace dense_fixture_test {

constexpr LapackCall called_directly[] = {
    {.routine = Routine::heevd, .vectors = true, .n = 9},
    {.routine = Routine::heevd, .uplo = Uplo::upper, .n = 9},
    {.routine = Routine::heevr, .vectors = true, .range = EigenRange::indices, .n = 9, .il = 3, .iu = 6},
    {.routine = Routine::heevr, .range = EigenRange::values, .uplo = Uplo::upper, .n = 9, .vl = -9, .vu = 1},
    {.routine = Routine::hegvd, .vectors = true, .itype = 2, .n = 9},
    {.routine = Routine::gesvd, .u = VectorJob::overwrite, .vt = VectorJob::all, .m = 9, .n = 7},
    {.routine = Routine::gesdd, .u = VectorJob::all, .vt = VectorJob::thin, .m = 7, .n = 9},
    {.routine = Routine::geev, .vectors = true, .n = 9},
    {.routine = Routine::gels, .m = 9, .n = 7, .k = 3},
    {.routine = Routine::gels, .op = Op::conj_trans, .m = 9, .n = 7, .k = 3},
    {.routine = Routine::gelsd, .m = 9, .n = 7, .k = 3, .rcond = 1e-4},
    {.routine = Routine::gelsd, .m = 7, .n = 9, .k = 3, .rcond = -1}};

void* of_the_machine(const char* name) { return test::cpu_blas()->fortran(name); }

/// Solves the problem without Tessera.
template <Scalar T>
index_t solve(LapackCall problem) {
  if (is_svd(problem.routine)) problem.routine = Routine::gesvd;
  return test::call_lapack_directly<T>(of_the_machine(name_of(problem).c_str()), problem, *problem.found);
}

class DenseFixtures : public testing::Test {
 protected:
  void SetUp() override {
    if (of_the_machine("dsyevd") == nullptr) GTEST_SKIP() << test::cpu_blas()->path() << " has no LAPACK";
  }
};

TEST_F(DenseFixtures, RightResultsPassAndWrongOnesDoNot) {
  for (const LapackCall& form : called_directly) {
    for (const ScalarType type : scalar_types) {
      dispatch(type, [&]<Scalar T>(T) {
        using Real = decltype(std::abs(T{}));
        test::DenseFixture<T> fixture(form, 5);
        const index_t info = solve<T>(fixture.problem());
        if (destroys_a(fixture.problem())) fixture.take_a_back();
        EXPECT_TRUE(fixture.check(info));
        EXPECT_FALSE(fixture.check(info + 1));
        for (const LapackOperand& operand : LapackOperands(fixture.problem())) {
          if (!operand.writes) continue;
          Real& number = *reinterpret_cast<Real*>(operand.address);
          const Real before = number;
          number += Real(0.5);
          EXPECT_FALSE(fixture.check(info)) << fixture.problem() << ", slot " << static_cast<int>(operand.slot);
          number = before;
        }
      });
    }
  }
}

// A failure of ours over a good library stays one.
TEST_F(DenseFixtures, AGoodLibraryIsNotBlamed) {
  for (const LapackCall& form : called_directly) {
    for (const ScalarType type : scalar_types) {
      dispatch(type, [&]<Scalar T>(T) {
        const test::DenseFixture<T> fixture(form, 5);
        EXPECT_EQ(fixture.fault_of_library(of_the_machine), "");
        EXPECT_FALSE(fixture.unless_library_is_wrong(testing::AssertionFailure()));
      });
    }
  }
}

void wrong_ssyevd(const char*, const char*, const index_t*, void*, const index_t*, void*, float*, const index_t*,
                  index_t*, const index_t*, index_t* info, std::size_t, std::size_t, std::size_t) {
  *info = 30;
}

TEST(DenseFixtureFaults, ALibraryThatIsWrongByItselfIsNamed) {
  const test::DenseFixture<float> fixture({.routine = Routine::heevd, .vectors = true, .n = 31}, 5);
  const std::string fault = fixture.fault_of_library([](const char* name) {
    EXPECT_STREQ(name, "ssyevd");
    return reinterpret_cast<void*>(&wrong_ssyevd);
  });
  EXPECT_THAT(fault, testing::MatchesRegex("ssyevd of .*tests_routines, called directly: .*"));
  EXPECT_THAT(fault, testing::HasSubstr("info 30, not 0"));
}

}  // namespace dense_fixture_test
}  // namespace tessera
