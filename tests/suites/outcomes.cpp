// Suites with every outcome that ctest must distinguish (check_outcomes.py).
#include <gtest/gtest.h>

#include <cstdlib>

namespace {

TEST(Passes, Passes) {}
TEST(Fails, Fails) { FAIL() << "on purpose"; }
TEST(Skips, Skips) { GTEST_SKIP() << "on purpose"; }
TEST(Skips, SkipsToo) { GTEST_SKIP() << "on purpose"; }

TEST(SkipsAndPasses, Skips) { GTEST_SKIP() << "on purpose"; }
TEST(SkipsAndPasses, Passes) {}

TEST(SkipsAndFails, Skips) { GTEST_SKIP() << "on purpose"; }
TEST(SkipsAndFails, Fails) { FAIL() << "on purpose"; }

// A test with CUDA in its name has a ctest entry of its own.
TEST(OfDevices, PassesOnHost) {}
TEST(OfDevices, SkipsOnCuda) { GTEST_SKIP() << "on purpose"; }
TEST(OfDevices, FailsOnCuda) { FAIL() << "on purpose"; }
TEST(OfDevices, PassesOnCuda) {}

TEST(SkipsAndLeaves, Skips) { GTEST_SKIP() << "on purpose"; }
TEST(SkipsAndLeaves, Leaves) { std::_Exit(77); }

TEST(SkipsAndCrashes, Skips) { GTEST_SKIP() << "on purpose"; }
TEST(SkipsAndCrashes, Crashes) { std::abort(); }

TEST(RunsNothing, DISABLED_Fails) { FAIL() << "never runs"; }

}  // namespace
