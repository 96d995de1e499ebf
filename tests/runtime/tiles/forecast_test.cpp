#include "runtime/tiles/forecast.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace tessera::runtime {
namespace forecast_test {

// Task t has `steps[t]` steps, starts in wave `starts[t]`, and reads tile 10 t in each of them beside tile 1000 + wave.
class TwoReads final : public TaskGraph {
 public:
  TwoReads(std::vector<index_t> steps, std::vector<index_t> starts)
      : steps_(std::move(steps)), starts_(std::move(starts)) {
    task_count = static_cast<index_t>(steps_.size());
    derive();
  }

  static HostTile tile(index_t number) { return {reinterpret_cast<std::byte*>(number * 64), 8, 8, 8}; }

  Output output(TaskId) const override { return {}; }
  index_t home(TaskId, index_t) const override { return 0; }
  index_t step_count(TaskId task) const override { return steps_[static_cast<std::size_t>(task)]; }
  Step step(TaskId task, index_t l) const override {
    return {.a = {tile(10 * (task + 1))}, .b = {tile(1000 + wave(task, l))}};
  }
  index_t wave(TaskId task, index_t l) const override { return starts_[static_cast<std::size_t>(task)] + l; }

 private:
  std::vector<index_t> steps_;
  std::vector<index_t> starts_;
};

TEST(Forecast, TasksTakeTurnsFromTheFirstRoundOfTheirGroup) {
  const TwoReads graph({2, 3}, {5, 6});
  Forecast forecast;
  forecast.append(graph, {0, 1});
  // Rounds 5 to 8 of two tasks.
  const std::vector<std::pair<TaskId, index_t>> expected = {{0, 0},       {no_task, 0}, {0, 1},       {1, 0},
                                                            {no_task, 0}, {1, 1},       {no_task, 0}, {1, 2}};
  ASSERT_EQ(forecast.end(), static_cast<index_t>(expected.size()));
  for (index_t p = 0; p < forecast.end(); ++p) {
    const auto& [task, step] = expected[static_cast<std::size_t>(p)];
    EXPECT_EQ(forecast.at(p).task, task) << p;
    if (task != no_task) {
      EXPECT_EQ(forecast.at(p).step, step) << p;
    }
  }
  EXPECT_EQ(Forecast::first_wave(graph, {0, 1}), 5);
  EXPECT_EQ(Forecast::first_wave(graph, {1}), 6);
}

TEST(Forecast, NextUseIsTheFirstReadThatFollows) {
  const TwoReads graph({3, 2, 4, 1}, {0, 0, 2, 1});
  Forecast forecast;
  forecast.append(graph, {0, 1});
  forecast.append(graph, {2, 3});
  std::set<index_t> numbers;
  for (index_t n = 1; n <= 4; ++n) numbers.insert(10 * n);
  for (index_t n = 0; n < 8; ++n) numbers.insert(1000 + n);
  for (const index_t number : numbers) {
    const HostTile tile = TwoReads::tile(number);
    for (index_t after = -1; after < forecast.end(); ++after) {
      index_t expected = cache::never;
      for (index_t p = forecast.end() - 1; p > after; --p) {
        const auto place = forecast.at(p);
        if (place.task == no_task) continue;
        const Step step = graph.step(place.task, place.step);
        if (step.a.tile == tile || step.b.tile == tile) expected = p;
      }
      EXPECT_EQ(forecast.next_use(tile, after), expected) << number << " after " << after;
    }
  }
  forecast.clear();
  EXPECT_EQ(forecast.end(), 0);
  EXPECT_EQ(forecast.next_use(TwoReads::tile(10), -1), cache::never);
}

}  // namespace forecast_test
}  // namespace tessera::runtime
