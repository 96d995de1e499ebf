// The sums of a job's devices, and their form as JSON.
#include "runtime/statistics.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/runtime/some_job.hpp"

namespace tessera::runtime {
namespace statistics_test {

using test::some_job;

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

}  // namespace statistics_test
}  // namespace tessera::runtime
