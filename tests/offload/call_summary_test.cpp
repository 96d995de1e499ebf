// The report of TESSERA_SUMMARY. That it comes at exit, and what a child reports, is tested from outside (tests/client).
#include "offload/call_summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tessera::offload {
namespace call_summary_test {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Level3 square(index_t n, Routine routine = Routine::gemm, ScalarType type = ScalarType::d) {
  Level3 call;
  call.routine = routine;
  call.type = type;
  call.m = call.n = call.k = n;
  return call;
}

constexpr Decision on_devices = {true, Reason::device_wins};
constexpr Decision on_cpu = {false, Reason::tiny};

void record(CallSummary& summary, const Level3& call, const Decision& decision, double seconds) {
  summary.record(work_of(call), decision, {.seconds = seconds});
}

TEST(CallSummary, NothingIsNothing) { EXPECT_EQ(CallSummary("").text(), ""); }

TEST(CallSummary, ByRoutineSizeAndPlace) {
  CallSummary summary("");
  for (int i = 0; i < 3; ++i) record(summary, square(100), on_cpu, 0.25);
  record(summary, square(127), on_cpu, 0.25);
  record(summary, square(128), on_cpu, 2);
  record(summary, square(1000), on_devices, 0.5);
  record(summary, square(1000, Routine::trsm, ScalarType::z), {false, Reason::never}, 4);
  const std::string text = summary.text();
  EXPECT_THAT(text, HasSubstr("summary of process " + std::to_string(getpid()) + " ("));
  EXPECT_THAT(text, ContainsRegex("dgemm +64-127 +CPU +4 +1.000000 "));
  EXPECT_THAT(text, ContainsRegex("dgemm +128-255 +CPU +1 +2.000000 "));
  EXPECT_THAT(text,
              ContainsRegex("dgemm +512-1023 +devices +1 +0.500000 +4.000\n"));  // 2e9 operations in half a second
  EXPECT_THAT(text, ContainsRegex("ztrsm +512-1023 +CPU +1 +4.000000 "));
  EXPECT_THAT(text, ContainsRegex("all +devices +1 +0.500000 "));
  EXPECT_THAT(text, ContainsRegex("all +CPU +6 +7.000000 "));
  EXPECT_THAT(text, ContainsRegex(" 5 x too small for devices\n"));
  EXPECT_THAT(text, ContainsRegex(" 1 x sooner on devices\n"));
  EXPECT_THAT(text, ContainsRegex(" 1 x TESSERA_OFFLOAD=never\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(line.starts_with("tessera: ")) << line;
}

TEST(CallSummary, WaitingForTheStartOfDevicesIsToldApart) {
  CallSummary summary("");
  const auto record_with = [&](double seconds, double start_s) {
    summary.record(work_of(square(1000)), on_devices, {.seconds = seconds, .start_s = start_s});
  };
  record_with(1, 0);
  EXPECT_THAT(summary.text(), Not(HasSubstr("start")));
  record_with(2, 1.5);
  record_with(1, 0.25);
  EXPECT_THAT(summary.text(),
              ContainsRegex("all +devices +3 +4.000000 .*\ntessera: 1.750000 s of it waiting for devices to start\n"));
  summary.clear();
  record_with(1, 0);
  EXPECT_THAT(summary.text(), Not(HasSubstr("start")));
}

TEST(CallSummary, HoldsTheSmallestAndTheLargest) {
  CallSummary summary("");
  record(summary, square(1), on_cpu, 0.5);
  record(summary, square(INT64_MAX), on_devices, 0.5);
  EXPECT_THAT(summary.text(),
              AllOf(ContainsRegex("dgemm +1-1 +CPU"), ContainsRegex("dgemm +1048576-2097151 +devices")));
}

TEST(CallSummary, ClearingForgetsEverything) {
  CallSummary summary("");
  record(summary, square(100), on_cpu, 1);
  summary.clear();
  EXPECT_EQ(summary.text(), "");
  record(summary, square(100, Routine::symm), on_cpu, 1);
  EXPECT_THAT(summary.text(), AllOf(HasSubstr("dsymm"), Not(HasSubstr("dgemm")), HasSubstr(" 1 x too small")));
}

TEST(CallSummary, ManyThreadsAreCountedInFull) {
  CallSummary summary("");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) record(summary, square(100), on_cpu, 1e-3);
      static_cast<void>(summary.text());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(summary.text(), ContainsRegex("dgemm +64-127 +CPU +40000 +40.000000 +2.000\n"));
}

TEST(CallSummary, AFileIsAppendedTo) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / ("summary" + std::to_string(getpid()));
  for (int i = 0; i < 2; ++i) {
    CallSummary summary(file.string());
    summary.print();  // nothing to say
    record(summary, square(100), on_cpu, 1);
    summary.print();
  }
  std::ostringstream content;
  content << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  const std::string text = content.str();
  const std::string head = "tessera: summary of process";
  const std::size_t second = text.find(head, 1);
  EXPECT_EQ(text.find(head), 0U);
  EXPECT_NE(second, std::string::npos);
  EXPECT_EQ(text.find(head, second + 1), std::string::npos);
}

TEST(CallSummary, AFileThatCannotBeWrittenIsTold) {
  CallSummary summary("/nonexistent/summary");
  record(summary, square(100), on_cpu, 1);
  testing::internal::CaptureStderr();
  summary.print();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(testing::StartsWith("tessera: cannot write TESSERA_SUMMARY=/nonexistent/summary: "),
                    HasSubstr("No such file")));
}

}  // namespace call_summary_test
}  // namespace tessera::offload
