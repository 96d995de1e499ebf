// Calls of LAPACK as data: what is asked of their arguments, and their names among all routines.
#include "calls/lapack_arguments.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace lapack_arguments_test {

using enum Routine;

TEST(LapackArguments, BadSizesAreFoundInLapacksOrder) {
  const auto bad = [](Routine routine, index_t m, index_t n, index_t nrhs, index_t lda, index_t ldb) {
    const LapackArguments arguments{
        .called = routine,
        .problem = {.routine = routine, .m = has_m(routine) ? m : n, .n = n, .k = nrhs, .lda = lda, .ldb = ldb},
        .bad_letters = {}};
    return first_bad(parameters_of(routine), arguments, {}, [](Parameter) { return true; });
  };
  EXPECT_EQ(bad(potrf, 5, 5, -1, 5, 0), 0);
  EXPECT_EQ(bad(potrf, 0, -1, 0, 0, 0), 2);
  EXPECT_EQ(bad(potrf, 0, 5, 0, 4, 0), 4);
  EXPECT_EQ(bad(potrf, 0, 0, 0, 0, 0), 4);
  EXPECT_EQ(bad(potrs, 0, 5, -1, 4, 4), 3);
  EXPECT_EQ(bad(potrs, 0, 5, 1, 4, 4), 5);
  EXPECT_EQ(bad(posv, 0, 5, 1, 5, 4), 7);
  EXPECT_EQ(bad(getrf, -1, -1, 0, 0, 0), 1);
  EXPECT_EQ(bad(getrf, 5, -1, 0, 0, 0), 2);
  EXPECT_EQ(bad(getrf, 5, 3, 0, 4, 0), 4);
  EXPECT_EQ(bad(getrf, 3, 5, 0, 3, 0), 0);
  EXPECT_EQ(bad(getrs, 0, 5, 1, 5, 4), 8);
  EXPECT_EQ(bad(gesv, 0, -1, -1, 0, 0), 1);
  EXPECT_EQ(bad(gesv, 0, 5, -1, 0, 0), 2);
  EXPECT_EQ(bad(gesv, 0, 5, 0, 5, 4), 7);
  EXPECT_EQ(bad(geqrf, 5, 3, 0, 4, 0), 4);
  EXPECT_EQ(bad(gelqf, -1, -1, 0, 0, 0), 1);
  EXPECT_EQ(bad(gelqf, 5, -1, 0, 0, 0), 2);
  EXPECT_EQ(bad(gelqf, 5, 3, 0, 4, 0), 4);
  EXPECT_EQ(bad(gelqf, 3, 5, 0, 3, 0), 0);
  EXPECT_EQ(bad(unglq, 5, 4, 0, 0, 0), 2);
  EXPECT_EQ(bad(unglq, 3, 5, 4, 0, 0), 3);
  EXPECT_EQ(bad(unglq, 3, 5, 3, 2, 0), 5);
  EXPECT_EQ(bad(unglq, 3, 5, 3, 3, 0), 0);
  EXPECT_EQ(position_of(geqrf, Parameter::info), 8);
  EXPECT_EQ(position_of(geqrf, Parameter::ipiv), 0);
}

TEST(LapackArguments, NothingIsToBeDoneWithoutAMatrix) {
  EXPECT_TRUE(does_nothing({.routine = getrf, .m = 0, .n = 5}));
  EXPECT_TRUE(does_nothing({.routine = geqrf, .m = 5, .n = 0}));
  EXPECT_TRUE(does_nothing({.routine = getrs, .m = 5, .n = 5, .k = 0}));
  EXPECT_TRUE(does_nothing({.routine = potrf, .n = 0}));
  // These factor nonetheless.
  EXPECT_FALSE(does_nothing({.routine = gesv, .m = 5, .n = 5, .k = 0}));
  EXPECT_FALSE(does_nothing({.routine = posv, .m = 5, .n = 5, .k = 0}));
}

TEST(LapackArguments, OperationsAreThoseOfTheWorkingNote) {
  EXPECT_DOUBLE_EQ(flops_of(LapackCall{.routine = geqrf, .m = 30, .n = 10}), 2.0 * 30 * 100 - 2000.0 / 3);
  EXPECT_DOUBLE_EQ(flops_of(LapackCall{.routine = geqrf, .m = 10, .n = 30}), 2.0 * 30 * 100 - 2000.0 / 3);
  EXPECT_DOUBLE_EQ(flops_of(LapackCall{.routine = gelqf, .m = 10, .n = 30}), 2.0 * 30 * 100 - 2000.0 / 3);
  EXPECT_DOUBLE_EQ(flops_of(LapackCall{.routine = potrf, .type = ScalarType::z, .m = 30, .n = 30}), 4 * 9000.0);
  EXPECT_DOUBLE_EQ(flops_of(LapackCall{.routine = gesv, .m = 30, .n = 30, .k = 2}), 18000 + 3600);
}

}  // namespace lapack_arguments_test
}  // namespace tessera
