// A queue hands each task out once, in order, to several threads.
#include "runtime/tiles/task_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace tessera::runtime {
namespace task_queue_test {

TEST(TaskQueue, KeepsOrderAndHandsEachTaskOutOnce) {
  TaskQueue queue(1);  // grows
  for (TaskId t = 0; t < 1000; ++t) queue.push(t);
  EXPECT_EQ(queue.pop(), 0);
  EXPECT_EQ(queue.pop(), 1);
  std::vector<std::vector<TaskId>> taken(4);
  std::vector<std::thread> threads;
  for (auto& mine : taken) {
    threads.emplace_back([&] {
      while (const auto task = queue.pop()) mine.push_back(*task);
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<TaskId> all;
  for (const auto& mine : taken) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 998u);
  for (std::size_t t = 0; t < all.size(); ++t) EXPECT_EQ(all[t], static_cast<TaskId>(t + 2));
}

}  // namespace task_queue_test
}  // namespace tessera::runtime
