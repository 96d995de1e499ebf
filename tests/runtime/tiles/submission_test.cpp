// The steps that a task has asked for, and the point at which its old value is added.
#include "runtime/tiles/submission.hpp"

#include <gtest/gtest.h>

namespace tessera::runtime {
namespace submission_test {

// Two steps, and the old value after the first one.
TEST(Submission, TellsWhichStepIsNext) {
  Submission task{.steps = 2};
  EXPECT_FALSE(task.adds_old());
  task.adds_after = 1;
  EXPECT_TRUE(task.adds_old());
  EXPECT_FALSE(task.adds_next());
  task.next_step = 1;
  EXPECT_TRUE(task.adds_next());
  task.has_added = true;
  EXPECT_FALSE(task.adds_next());
  EXPECT_FALSE(task.all_asked());
  task.next_step = 2;
  EXPECT_TRUE(task.all_asked());
  task.asked.push_back({});
  EXPECT_FALSE(task.ended());
  task.asked.clear();
  EXPECT_TRUE(task.ended());
}

TEST(Submission, HasNotEndedBeforeItsOldValueIsAdded) {
  Submission task{.steps = 1, .next_step = 1, .adds_after = 1};
  EXPECT_FALSE(task.all_asked());
  task.has_added = true;
  EXPECT_TRUE(task.ended());
}

}  // namespace submission_test
}  // namespace tessera::runtime
