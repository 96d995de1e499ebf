#include "offload/program_history.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "offload/context.hpp"
#include "tests/temporary_folder.hpp"

namespace tessera::offload {
namespace program_history_test {

using Seen = ProgramHistory::Seen;

class ProgramHistoryTest : public ::testing::Test {
 protected:
  std::string file() const { return folder_.path("cache/programs"); }
  ProgramHistory of(const std::string& program) const { return {file(), program}; }
  std::size_t lines() const {
    std::ifstream stream(file());
    std::size_t count = 0;
    for (std::string line; std::getline(stream, line);) ++count;
    return count;
  }

  test::TemporaryFolder folder_;
};

TEST_F(ProgramHistoryTest, RemembersEachProgramApart) {
  EXPECT_EQ(of("one").seen(), Seen::nothing);
  of("one").note(Seen::nothing);
  EXPECT_EQ(lines(), 0U);
  of("one").note(Seen::used);
  of("two").note(Seen::used);
  of("one").note(Seen::used);
  EXPECT_EQ(lines(), 2U);
  EXPECT_EQ(of("one").seen(), Seen::used);
  EXPECT_EQ(of("two").seen(), Seen::used);
  EXPECT_EQ(of("three").seen(), Seen::nothing);
  of("one").note(Seen::nothing);
  EXPECT_EQ(of("one").seen(), Seen::nothing);
  EXPECT_EQ(of("two").seen(), Seen::used);
}

TEST_F(ProgramHistoryTest, AProgramWhoseChildrenWantTheDevicesIsNeverStartedEarlyAgain) {
  of("one").note(Seen::children);
  of("one").note(Seen::used);
  of("one").note(Seen::nothing);
  EXPECT_EQ(of("one").seen(), Seen::children);
}

TEST_F(ProgramHistoryTest, ForgetsTheOldestAndReadsWhateverIsThere) {
  for (std::size_t i = 0; i < ProgramHistory::most_programs + 20; ++i) of(std::to_string(i)).note(Seen::used);
  EXPECT_EQ(lines(), ProgramHistory::most_programs);
  EXPECT_EQ(of("0").seen(), Seen::nothing);
  EXPECT_EQ(of(std::to_string(ProgramHistory::most_programs + 19)).seen(), Seen::used);
  std::ofstream(file(), std::ios::binary) << std::string(100, '\0') << "\n\n+\n";
  EXPECT_EQ(of("0").seen(), Seen::nothing);
  of("0").note(Seen::used);
  EXPECT_EQ(of("0").seen(), Seen::used);
}

TEST_F(ProgramHistoryTest, WithoutAPlaceNothingIsKept) {
  const ProgramHistory nowhere("", "one");
  nowhere.note(Seen::used);
  EXPECT_EQ(nowhere.seen(), Seen::nothing);
  EXPECT_EQ(ProgramHistory::of_this_process("off").seen(), Seen::nothing);
}

/// A context of this process, whose history is in the folder.
class EarlyStart : public ProgramHistoryTest {
 protected:
  void SetUp() override {
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    before_ = cache != nullptr ? cache : "";
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override {
    before_.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", before_.c_str(), 1);
  }

  static Config config(const std::string& more = "") {
    return Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_OFFLOAD=always TESSERA_WARM_UP=known " + more);
  }
  static Seen seen() { return ProgramHistory::of_this_process("").seen(); }
  /// @return whether devices computed it
  bool runs_on_devices(Context& context) {
    const Level3 call{.m = 8,
                      .n = 8,
                      .k = 8,
                      .A = ones_.data(),
                      .lda = 8,
                      .B = ones_.data(),
                      .ldb = 8,
                      .C = product_.data(),
                      .ldc = 8};
    return context.run(call, Fallback::cpu_blas).has_value();
  }
  static bool is_open(Context& context) {
    for (int i = 0; i < 30000; ++i) {
      if (context.devices_are_open()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  std::vector<double> ones_ = std::vector<double>(64, 1), product_ = std::vector<double>(64);
  std::string before_;
};

TEST_F(EarlyStart, IsForAProgramThatUsedDevices) {
  {
    Context first(config());
    first.start_early();
    EXPECT_FALSE(first.devices_are_open());
    EXPECT_TRUE(runs_on_devices(first));
    EXPECT_EQ(seen(), Seen::used);
  }
  {
    Context second(config());
    second.start_early();
    EXPECT_TRUE(is_open(second));
    EXPECT_EQ(seen(), Seen::nothing) << "until a call has come";
    EXPECT_TRUE(runs_on_devices(second));
    EXPECT_EQ(seen(), Seen::used);
  }
  {
    Context without_calls(config());
    without_calls.start_early();
    EXPECT_TRUE(is_open(without_calls));
  }
  EXPECT_EQ(seen(), Seen::nothing);
}

TEST_F(EarlyStart, IsNotWhereNobodyAsksForIt) {
  ProgramHistory::of_this_process("").note(Seen::used);
  for (const char* const setting : {"TESSERA_WARM_UP=0", "TESSERA_OFFLOAD=never", "TESSERA_CALIBRATION=off"}) {
    Context context(config(setting));
    context.start_early();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(context.devices_are_open()) << setting;
  }
  EXPECT_EQ(seen(), Seen::used);
}

// CUDA does not survive a fork. So a child would have had devices of its own but for the early start.
TEST_F(EarlyStart, IsGivenUpWhereAChildWantsTheDevices) {
  ProgramHistory::of_this_process("").note(Seen::used);
  Context context(config());
  context.start_early();
  ASSERT_TRUE(is_open(context));
  const pid_t child = fork();
  if (child == 0) _exit(runs_on_devices(context) ? 1 : 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(seen(), Seen::children);
  EXPECT_TRUE(runs_on_devices(context));
  EXPECT_EQ(seen(), Seen::children);
}

}  // namespace program_history_test
}  // namespace tessera::offload
