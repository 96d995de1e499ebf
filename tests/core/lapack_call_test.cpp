// Calls of LAPACK as data: what is asked of their arguments, and their names among all routines.
#include "core/lapack_call.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/any_routine.hpp"
#include "core/offload_rules.hpp"

namespace tessera {
namespace {

using enum LapackCallRoutine;

TEST(LapackCallData, BadSizesAreFoundInLapacksOrder) {
  const auto bad = [](LapackCallRoutine routine, index_t m, index_t n, index_t nrhs, index_t lda, index_t ldb) {
    return first_bad_size({.routine = routine, .m = m, .n = n, .nrhs = nrhs, .lda = lda, .ldb = ldb});
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
  EXPECT_EQ(position_of(geqrf, LapackParameter::info), 8);
  EXPECT_EQ(position_of(geqrf, LapackParameter::ipiv), 0);
}

TEST(LapackCallData, NothingIsToBeDoneWithoutAMatrix) {
  EXPECT_TRUE(does_nothing({.routine = getrf, .m = 0, .n = 5}));
  EXPECT_TRUE(does_nothing({.routine = geqrf, .m = 5, .n = 0}));
  EXPECT_TRUE(does_nothing({.routine = getrs, .m = 5, .n = 5, .nrhs = 0}));
  EXPECT_TRUE(does_nothing({.routine = potrf, .n = 0}));
  // These factor nonetheless.
  EXPECT_FALSE(does_nothing({.routine = gesv, .m = 5, .n = 5, .nrhs = 0}));
  EXPECT_FALSE(does_nothing({.routine = posv, .m = 5, .n = 5, .nrhs = 0}));
}

TEST(LapackCallData, OperationsAreThoseOfTheWorkingNote) {
  EXPECT_DOUBLE_EQ(flops_of({.routine = geqrf, .m = 30, .n = 10}), 2.0 * 30 * 100 - 2000.0 / 3);
  EXPECT_DOUBLE_EQ(flops_of({.routine = geqrf, .m = 10, .n = 30}), 2.0 * 30 * 100 - 2000.0 / 3);
  EXPECT_DOUBLE_EQ(flops_of({.routine = potrf, .type = ScalarType::z, .n = 30}), 4 * 9000.0);
  EXPECT_DOUBLE_EQ(flops_of({.routine = gesv, .n = 30, .nrhs = 2}), 18000 + 3600);
}

TEST(LapackCallData, RulesKnowTheirNames) {
  OffloadRules rules;
  EXPECT_TRUE(rules.set("geqrf", {Offload::never}));
  EXPECT_TRUE(rules.set("dgetrf", {Offload::always}));
  EXPECT_FALSE(rules.set("gehrd", {Offload::always}));
  for (const ScalarType type : scalar_types) EXPECT_EQ(rules.of(geqrf, type).when, Offload::never);
  EXPECT_EQ(rules.of(getrf, ScalarType::d).when, Offload::always);
  EXPECT_EQ(rules.of(getrf, ScalarType::s).when, Offload::automatic);
  // A single call has the rule of its batches.
  EXPECT_EQ(rules.of(LapackRoutine::getrf, ScalarType::d).when, Offload::always);
  for (int number = 0; number < any_routine_count; ++number)
    EXPECT_EQ(AnyRoutine::of(number).number(), static_cast<std::size_t>(number));
  EXPECT_STREQ(AnyRoutine(geqrf).name(), "geqrf");
  EXPECT_TRUE(AnyRoutine(geqrf).is_lapack());
}

}  // namespace
}  // namespace tessera
