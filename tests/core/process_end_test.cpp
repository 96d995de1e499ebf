// Passes at the end of the process. It is irreversible, so each test runs in a separate process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/process.hpp"
#include "tests/core/process_colleagues.hpp"

namespace tessera::process {
namespace process_end_test {

using ::testing::ExitedWithCode;

class End : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

template <class Guard = Pass, class... Arguments>
bool ending_waits_for(void (*step)() noexcept, Arguments... arguments) {
  ColleagueWith<Guard> colleague(arguments...);
  std::thread waker([&] {
    let_others_run();
    colleague.leave();
  });
  step();
  const bool waited = colleague.left;
  waker.join();
  return waited;
}

TEST_F(End, NobodyDrivesDevicesAnyMoreButAllCompute) {
  EXPECT_EXIT(
      {
        bool good = ending_waits_for(leave_devices, Work::driving) && ending();
        std::thread other([&] {
          const Pass driving(Work::driving);
          const Pass computing(Work::computing);
          good = good && !driving && computing;
        });
        other.join();
        stop_if_ending();
        _exit(good ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST_F(End, TheLapackOfTheProgramMayFinish) {
  EXPECT_EXIT(_exit(ending_waits_for<InLapack>(leave_libraries) ? 0 : 1), ExitedWithCode(0), "");
}

TEST_F(End, LibrariesAreLeftByAllButTheExitingThread) {
  EXPECT_EXIT(
      {
        leave_devices();
        const bool good = ending_waits_for(leave_libraries, Work::computing);
        std::atomic<bool> inside = false;
        std::thread([&] {
          const Pass pass(Work::computing);
          inside = true;
        }).detach();
        std::thread([&] {
          stop_if_ending();
          inside = true;
        }).detach();
        let_others_run();
        const Pass own(Work::computing);
        _exit(good && !inside && own ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

}  // namespace process_end_test
}  // namespace tessera::process
