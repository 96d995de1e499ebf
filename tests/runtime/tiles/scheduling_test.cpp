// The pure and the small parts of the scheduler: queue, stations, the decision to take a task, statistics, trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "runtime/devices/signal.hpp"
#include "runtime/statistics.hpp"
#include "runtime/tiles/load_balance.hpp"
#include "runtime/tiles/reservation_station.hpp"
#include "runtime/tiles/task_queue.hpp"
#include "runtime/trace.hpp"

namespace tessera::runtime {
namespace scheduling_test {

constexpr auto always = [](const StationEntry&) { return true; };
constexpr auto never = [](const StationEntry&) { return false; };

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

TEST(LoadBalance, TakesWhileMuchIsLeft) {
  const std::vector<DeviceLoad> loads = {{100, 10}, {100, 1}};
  EXPECT_TRUE(should_take(loads, 0, 10, 1e6));
  EXPECT_TRUE(should_take(loads, 1, 10, 1e6));
}

TEST(LoadBalance, ASlowDeviceLeavesTheLastTasksToFasterOnes) {
  // Alone the slow one needs 25, the fast one with its backlog 30/10.
  const std::vector<DeviceLoad> loads = {{20, 10}, {0, 0.4}};
  EXPECT_TRUE(should_take(loads, 0, 10, 10));
  EXPECT_FALSE(should_take(loads, 1, 10, 10));
  // But if the fast one is busy for long, the slow one helps.
  EXPECT_TRUE(should_take(std::vector<DeviceLoad>{{1000, 10}, {0, 0.4}}, 1, 10, 10));
}

TEST(LoadBalance, EqualDevicesShareAFewTasks) {
  // One device has taken two of four tasks, the other none: the next one is for the other.
  EXPECT_FALSE(should_take(std::vector<DeviceLoad>{{20, 1}, {0, 1}}, 0, 10, 10));
  EXPECT_TRUE(should_take(std::vector<DeviceLoad>{{20, 1}, {0, 1}}, 1, 10, 10));
}

TEST(LoadBalance, TheCpuTakesWhatItEndsBeforeTheDevices) {
  const CpuHelp half{.flops_per_s = 50, .devices_flops_per_s = 100};
  EXPECT_TRUE(cpu_should_take(half, 0, 100, 10000));
  EXPECT_TRUE(cpu_should_take(half, 100, 100, 400));   // 2 s with margin 2.5; all the rest takes 2.67
  EXPECT_FALSE(cpu_should_take(half, 100, 100, 370));  // 2.47
  EXPECT_FALSE(cpu_should_take(half, 200, 100, 400));  // they turn out to be faster
  EXPECT_TRUE(cpu_should_take(half, 20, 100, 400));    // or slower, or have just begun: what was expected counts
}

TEST(LoadBalance, ACpuThatMakesLittleDifferenceOrIsNotKnownTakesNoPart) {
  EXPECT_FALSE(cpu_should_take({.flops_per_s = 50, .devices_flops_per_s = 100}, 0, 101, 1e6));  // more than two seconds
  EXPECT_TRUE(cpu_should_take({.flops_per_s = 7, .devices_flops_per_s = 100}, 0, 1, 1e6));
  EXPECT_FALSE(cpu_should_take({.flops_per_s = 6, .devices_flops_per_s = 100}, 0, 1, 1e6));
  EXPECT_FALSE(cpu_should_take({.flops_per_s = 7, .devices_flops_per_s = 100}, 120, 1, 1e6));
  EXPECT_FALSE(cpu_should_take({.flops_per_s = 7}, 10, 1, 1e6));
  EXPECT_FALSE(cpu_should_take({}, 10, 1, 1e6));
  EXPECT_TRUE(cpu_should_take({.always = true}, 10, 1, 1));
}

TEST(LoadBalance, ALoneDeviceAndAnUnmeasuredOneAlwaysTake) {
  EXPECT_TRUE(should_take(std::vector<DeviceLoad>{{1e9, 1}}, 0, 10, 10));
  EXPECT_TRUE(should_take(std::vector<DeviceLoad>{{50, 0}, {0, 1}}, 0, 10, 10));
}

// Some device takes the task under any loads, so the job always goes on.
TEST(LoadBalance, SomeDeviceAlwaysTakes) {
  const double backlogs[] = {0, 1, 7, 100};
  const double rates[] = {0.1, 1, 2.5, 40};
  for (const double b0 : backlogs) {
    for (const double b1 : backlogs) {
      for (const double b2 : backlogs) {
        for (const double r0 : rates) {
          for (const double r1 : rates) {
            for (const double r2 : rates) {
              const std::vector<DeviceLoad> loads = {{b0, r0}, {b1, r1}, {b2, r2}};
              bool any = false;
              for (std::size_t d = 0; d < 3; ++d) any |= should_take(loads, d, 3, 3);
              EXPECT_TRUE(any);
            }
          }
        }
      }
    }
  }
}

TEST(Signal, WakesWhoWaitsAndRemembersWhatWasRaisedBefore) {
  Signal signal;
  const auto seen = signal.version();
  signal.raise();
  signal.wait(seen, std::chrono::hours(1));  // returns at once
  const auto now = signal.version();
  std::thread other([&] { signal.raise(); });
  signal.wait(now, std::chrono::hours(1));
  other.join();
  signal.wait(signal.version(), std::chrono::microseconds(1));  // times out
}

TEST(Statistics, CoversIntervalsOnce) {
  EXPECT_EQ(covered_seconds({}), 0);
  EXPECT_DOUBLE_EQ(covered_seconds({{1, 2}}), 1);
  EXPECT_DOUBLE_EQ(covered_seconds({{5, 6}, {1, 2}}), 2);
  EXPECT_DOUBLE_EQ(covered_seconds({{1, 4}, {2, 3}, {3, 6}, {8, 9}}), 6);
  EXPECT_DOUBLE_EQ(covered_seconds({{-3, -1}, {-2, 0}}), 3);
}

TEST(JobStatistics, TellWhetherTheCpuHasHelped) {
  JobStatistics job;
  job.devices = {{.device = "cuda:0", .flops = 20}, {.device = "cuda:1", .flops = 40}};
  EXPECT_FALSE(job.has_cpu_part());
  job.devices.push_back({.device = "cpu", .flops = 0});
  EXPECT_FALSE(job.has_cpu_part());
  job.devices.back().flops = 1;
  EXPECT_TRUE(job.has_cpu_part());
}

JobStatistics some_job() {
  JobStatistics job{.routine = "dgemm", .m = 3, .n = 4, .k = 5, .seconds = 2, .flops = 120, .devices = {}};
  job.devices = {{.device = "host:0", .l1_hits = 1, .bytes_up = 10, .bytes_down = 1, .bytes_peer = 5, .bytes_kept = 3},
                 {.device = "host:1", .misses = 2, .bytes_up = 20, .bytes_down = 2, .bytes_peer = 7}};
  return job;
}

TEST(Statistics, AddsUpDevicesAndPrintsJson) {
  const JobStatistics job = some_job();
  EXPECT_EQ(job.bytes_up(), 30);
  EXPECT_EQ(job.bytes_down(), 3);
  EXPECT_EQ(job.bytes_peer(), 12);
  EXPECT_EQ(job.bytes_kept(), 3);
  const std::string text = to_json(job);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["routine"], "dgemm");
  EXPECT_EQ(json["k"], 5);
  ASSERT_EQ(json["devices"].size(), 2u);
  EXPECT_EQ(json["devices"][1]["device"], "host:1");
  EXPECT_EQ(json["devices"][1]["bytes_up"], 20);
  EXPECT_EQ(json["devices"][0]["bytes_kept"], 3);
  EXPECT_FALSE(json.contains("start_up"));
}

TEST(Statistics, PrintsTheStartUpOfAFirstJob) {
  JobStatistics job = some_job();
  job.start_up = {.load_s = 0.5, .open_s = 0.25, .reserve_s = 0.125, .first_kernel_s = 2};
  EXPECT_EQ(nlohmann::json::parse(to_json(job))["start_up"],
            nlohmann::json({{"load_s", 0.5}, {"open_s", 0.25}, {"reserve_s", 0.125}, {"first_kernel_s", 2.0}}));
}

TEST(Trace, IsValidJsonAfterEveryJob) {
  const auto path = std::filesystem::temp_directory_path() / ("tessera_trace_" + std::to_string(::getpid()) + ".json");
  TraceFile trace(path.string());
  const device::Operation kernel{.stream = {device::StreamKind::compute, 2},
                                 .begin_s = 11,
                                 .end_s = 11.5,
                                 .flops = 9,
                                 .task = 4,
                                 .step = 1,
                                 .kernel = "trsm"};
  const device::Operation up{.stream = {device::StreamKind::up}, .begin_s = 10, .end_s = 11, .bytes = 64};
  const auto read = [&] { return nlohmann::json::parse(std::ifstream(path)); };
  trace.append(some_job(), 10, {"host:0", "host:1"}, {{kernel, up}, {}});
  const auto first = read();
  trace.append(some_job(), 20, {"host:0", "host:1"}, {{}, {up}});
  const auto second = read();
  EXPECT_EQ(second.size(), first.size() + 2);  // the call and one copy
  bool found = false;
  for (const auto& event : first) {
    if (event["name"] != "trsm task 4 step 1") continue;
    found = true;
    EXPECT_EQ(event["pid"], 1);
    EXPECT_EQ(event["tid"], 2);
    EXPECT_DOUBLE_EQ(event["ts"].get<double>(), 1e6);
    EXPECT_DOUBLE_EQ(event["dur"].get<double>(), 0.5e6);
  }
  EXPECT_TRUE(found);
  std::filesystem::remove(path);
}

TEST(Trace, AnUnwritableFileDoesNoHarm) {
  TraceFile trace("/nonexistent_folder/trace.json");
  trace.append(some_job(), 0, {"host:0", "host:1"}, {{}, {}});
  TraceFile none("");
  none.append(some_job(), 0, {"host:0", "host:1"}, {{}, {}});
}

}  // namespace scheduling_test
}  // namespace tessera::runtime
