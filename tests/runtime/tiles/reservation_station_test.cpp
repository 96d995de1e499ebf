// The order in which a station gives tasks to its owner and to thieves.
#include "runtime/tiles/reservation_station.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <thread>
#include <vector>

namespace tessera::runtime {
namespace reservation_station_test {

constexpr auto always = [](const StationEntry&) { return true; };
constexpr auto never = [](const StationEntry&) { return false; };

TEST(ReservationStation, OwnerTakesTheBestAThiefTheWorst) {
  ReservationStation station;
  station.put({.task = 1, .flops = 10, .priority = 5});
  station.put({.task = 2, .flops = 20, .priority = 9});
  station.put({.task = 3, .flops = 30, .priority = 1});
  station.put({.task = 4, .flops = 40, .priority = 9});
  EXPECT_EQ(station.size(), 4u);
  EXPECT_EQ(station.flops(), 100);
  EXPECT_EQ(station.take_best(always)->task, 2);  // of equals the earlier task
  EXPECT_EQ(station.steal_worst(always)->task, 3);
  EXPECT_FALSE(station.take_best(never));
  EXPECT_EQ(station.size(), 2u);
  EXPECT_EQ(station.steal_worst(always)->task, 1);
  EXPECT_EQ(station.take_best(always)->task, 4);
  EXPECT_FALSE(station.take_best(always));
  EXPECT_FALSE(station.steal_worst(always));
}

TEST(ReservationStation, RefreshesPriorities) {
  ReservationStation station;
  station.put({.task = 1, .priority = 5});
  station.put({.task = 2, .priority = 1});
  station.refresh([](TaskId task) { return static_cast<double>(task); });
  EXPECT_EQ(station.take_best(always)->task, 2);
}

TEST(ReservationStation, PassesATaskOverOnlySoOften) {
  ReservationStation station;
  station.put({.task = 0, .priority = 1});
  for (int pass = 0; pass < ReservationStation::patience; ++pass) {
    station.put({.task = 10 + pass, .priority = 9});
    EXPECT_EQ(station.take_best(always)->task, 10 + pass);
  }
  station.put({.task = 20, .priority = 9});
  EXPECT_EQ(station.take_best(always)->task, 0);
}

TEST(ReservationStation, LosesAndDoublesNothingUnderTheft) {
  ReservationStation station;
  constexpr TaskId tasks = 2000;
  std::vector<std::vector<TaskId>> taken(3);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (TaskId t = 0; t < tasks; ++t) {
      station.put({.task = t, .flops = 1});
      if (t % 3 == 0) {
        if (const auto entry = station.take_best(always)) taken[0].push_back(entry->task);
        station.refresh([](TaskId task) { return static_cast<double>(task % 7); });
      }
    }
  });
  for (std::size_t thief = 1; thief < 3; ++thief) {
    threads.emplace_back([&, thief] {
      for (int tries = 0; tries < 2000; ++tries) {
        if (const auto entry = station.steal_worst(always)) taken[thief].push_back(entry->task);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  while (const auto entry = station.take_best(always)) taken[0].push_back(entry->task);
  std::multiset<TaskId> all;
  for (const auto& mine : taken) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), static_cast<std::size_t>(tasks));
  EXPECT_EQ(std::set<TaskId>(all.begin(), all.end()).size(), static_cast<std::size_t>(tasks));
}

}  // namespace reservation_station_test
}  // namespace tessera::runtime
