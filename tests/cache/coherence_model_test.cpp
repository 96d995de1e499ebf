// Model checker of coherence: all interleavings of tasks, copies, evictions and write-backs on two devices with the
// real cache, breadth-first. Each device runs two tasks at a time. A state is rebuilt from the moves that led to it.
//
// Checked after each move, by World::check(), TileCache::check_invariants() and the assertions in the tasks:
// - a reader and an update see the version that they request;
// - replicas that have arrived, and host memory, hold the version that the directory names;
// - the only copy of a version is never dropped;
// - no copy reads memory that may change meanwhile, or copies anything but tiles;
// - there is one writer.
// At the end host memory holds the last version, and nothing is pinned. Every state has a successor, and the end can be
// reached from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "tests/cache/coherence_model.hpp"

namespace tessera::cache::model {
namespace coherence_model_test {

struct Reached {
  std::size_t from = 0;
  Move move = {};
  std::vector<std::size_t> predecessors = {};
  bool is_end = false;
};

class Exploration {
 public:
  explicit Exploration(const Scenario& scenario) : scenario_(scenario) {}

  void run() {
    note(World(scenario_), 0, {});
    for (std::size_t state = 0; state < states_.size(); ++state) expand(state);
    check_that_all_can_end();
  }
  std::size_t states() const { return states_.size(); }
  std::size_t transitions() const { return transitions_; }
  std::size_t ends() const { return ends_; }

 private:
  void replay(World& world, std::size_t state) const {
    std::vector<const Move*> path;
    for (; state != 0; state = states_[state].from) path.push_back(&states_[state].move);
    for (auto move = path.rbegin(); move != path.rend(); ++move) world.make(**move);
  }

  std::size_t note(const World& world, std::size_t from, const Move& move) {
    const auto [known, is_new] = numbers_.emplace(world.fingerprint(), states_.size());
    if (is_new) {
      states_.push_back({from, move, {}, world.finished()});
      ends_ += states_.back().is_end ? 1 : 0;
    }
    return known->second;
  }

  void expand(std::size_t state) {
    const auto world_there = [&] {
      auto world = std::make_unique<World>(scenario_);
      replay(*world, state);
      return world;
    };
    auto world = world_there();
    if (states_[state].is_end) return world->check_end();
    bool goes_on = false;
    for (const Move& move : world->moves()) {
      if (!world) world = world_there();
      world->make(move);
      world->check();
      const std::size_t next = note(*world, state, move);
      if (next == state) continue;  // the move changed nothing
      world = nullptr;
      goes_on = true;
      ++transitions_;
      states_[next].predecessors.push_back(state);
    }
    require(goes_on, "every state but the end has a successor");
  }

  void check_that_all_can_end() const {
    std::vector<bool> can_end(states_.size());
    std::vector<std::size_t> left;
    for (std::size_t state = 0; state < states_.size(); ++state) {
      if (states_[state].is_end) left.push_back(state);
    }
    std::size_t count = 0;
    while (!left.empty()) {
      const std::size_t state = left.back();
      left.pop_back();
      if (can_end[state]) continue;
      can_end[state] = true;
      ++count;
      left.insert(left.end(), states_[state].predecessors.begin(), states_[state].predecessors.end());
    }
    require(count == states_.size(), "the end can be reached from every state");
  }

  const Scenario& scenario_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<Reached> states_;
  std::size_t transitions_ = 0;
  std::size_t ends_ = 0;
};

constexpr int X = 0, Y = 1;

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = {
      {"products", {2, 3}, {{0, 0, {{X, 0}}, Way::product, {Y, 1}}, {1, 0, {{X, 0}}}, {1, 1, {{X, 0}, {Y, 1}}}}},
      {"solve", {2, 2}, {{0, 0, {}, Way::solve, {X, 1}}, {1, 0, {{X, 1}}, Way::solve, {Y, 1}}, {0, 1, {{X, 1}}}}},
      {"solve_in_little_memory",
       {1, 2},
       {{0, 0, {}, Way::solve, {X, 1}}, {1, 0, {{X, 1}}, Way::solve, {Y, 1}}, {0, 0, {{Y, 1}}}}},
      {"triangular_product", {2, 2}, {{0, 0, {{Y, 0}}, Way::beside, {X, 1}}, {1, 0, {{X, 0}}, Way::beside, {Y, 1}}}},
      {"factorization",
       {2, 2},
       {{0, 0, {}, Way::update, {X, 1}},
        {1, 0, {{X, 1}}, Way::update, {Y, 1}},
        {0, 1, {{Y, 1}}},
        {1, 1, {}, Way::update, {X, 2}}}},
      {"factorization_on_both",
       {2, 3},
       {{0, 0, {}, Way::update, {X, 1}},
        {1, 0, {{X, 1}}, Way::update, {Y, 1}},
        {0, 1, {{X, 1}}, Way::none},
        {0, 0, {{Y, 1}}, Way::update, {X, 2}}}},
      {"one_slot",
       {1, 1},
       {{0, 0, {}, Way::update, {X, 1}},
        {0, 0, {}, Way::update, {Y, 1}},
        {1, 0, {{X, 1}}},
        {1, 0, {}, Way::update, {X, 2}},
        {0, 0, {{X, 2}}}}},
      {"replaced_while_read",
       {2, 2},
       {{1, 0, {{X, 0}}},
        {0, 0, {}, Way::replace, {X, 1}},
        {1, 1, {{X, 1}}},
        {0, 1, {}, Way::replace, {Y, 1}},
        {1, 0, {}, Way::replace, {X, 2}}}},
  };
  return all;
}

class CoherenceModel : public ::testing::TestWithParam<Scenario> {};

TEST_P(CoherenceModel, EveryInterleavingIsRight) {
  Exploration exploration(GetParam());
  try {
    exploration.run();
  } catch (const std::exception& failure) {
    FAIL() << failure.what() << ", after " << exploration.states() << " states";
  }
  EXPECT_GT(exploration.ends(), 0u);
  std::cout << GetParam().name << ": " << exploration.states() << " states, " << exploration.transitions()
            << " transitions, " << exploration.ends() << " ends\n";
  RecordProperty("states", static_cast<int>(exploration.states()));
  RecordProperty("transitions", static_cast<int>(exploration.transitions()));
}

// The possible uses of a tile by four tasks, one client each, in this order as far as they depend on each other.
enum class Kind { read, update, replace, solve, beside, read_and_update_other };
constexpr int kinds = 6;

Scenario program(int number, std::array<std::size_t, devices> slots) {
  Scenario result{"program", slots, {}};
  Version x = 0, y = 0;
  for (int t = 0; t < 4; ++t, number /= kinds) {
    Task task{t % 2, t / 2};
    switch (static_cast<Kind>(number % kinds)) {
      case Kind::read:
        task.reads = {{X, x}};
        break;
      case Kind::update:
        task.way = Way::update;
        break;
      case Kind::replace:
        task.way = Way::replace;
        break;
      case Kind::solve:
        task.way = Way::solve;
        break;
      case Kind::beside:
        task.way = Way::beside;
        break;
      case Kind::read_and_update_other:
        task.reads = {{X, x}};
        task.way = Way::update;
        task.output = {Y, ++y};
        break;
    }
    if (task.way != Way::none && task.reads.empty()) task.output = {X, ++x};
    result.tasks.push_back(std::move(task));
  }
  return result;
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int stride = 29;  // they check every access, and the model makes many
#else
constexpr int stride = 1;
#endif

TEST(CoherenceModelPrograms, AllOfFourTasks) {
  constexpr int programs = kinds * kinds * kinds * kinds;
  std::size_t explored = 0, states = 0, transitions = 0;
  for (const std::size_t slots : {1, 2}) {
    for (int number = 0; number < programs; number += stride) {
      const Scenario scenario = program(number, {slots, slots});
      const bool fits = std::all_of(scenario.tasks.begin(), scenario.tasks.end(), [&](const Task& task) {
        return task.reads.size() + (task.way == Way::none ? 0 : 1) <= slots;
      });
      if (!fits) continue;
      Exploration exploration(scenario);
      try {
        exploration.run();
      } catch (const std::exception& failure) {
        FAIL() << failure.what() << ", program " << number << " with " << slots << " slots";
      }
      ++explored;
      states += exploration.states();
      transitions += exploration.transitions();
    }
  }
  std::cout << explored << " programs: " << states << " states, " << transitions << " transitions\n";
  RecordProperty("programs", static_cast<int>(explored));
  RecordProperty("states", static_cast<int>(states));
  RecordProperty("transitions", static_cast<int>(transitions));
}

INSTANTIATE_TEST_SUITE_P(All, CoherenceModel, ::testing::ValuesIn(scenarios()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace coherence_model_test
}  // namespace tessera::cache::model
