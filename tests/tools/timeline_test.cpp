// Reading of a trace, and the shares of a call's time.
#include "tools/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera::tools {
namespace timeline_test {

using nlohmann::json;
using testing::HasSubstr;

json name(const char* what, int pid, int tid, const char* text) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", text}}}};
}
json call(const char* routine, double begin_us, double length_us) {
  return {{"ph", "X"},
          {"name", routine},
          {"pid", 0},
          {"tid", 0},
          {"ts", begin_us},
          {"dur", length_us},
          {"args", {{"m", 3}, {"n", 4}, {"k", 5}}}};
}
json span(int pid, int tid, double begin_us, double length_us, const char* text = "up") {
  return {{"ph", "X"}, {"name", text}, {"pid", pid}, {"tid", tid}, {"ts", begin_us}, {"dur", length_us}};
}

/// Two calls on two devices.
json trace() {
  return {name("process_name", 0, 0, "calls"),
          name("process_name", 1, 0, "cuda:0"),
          name("process_name", 2, 0, "cuda:1"),
          name("thread_name", 1, 0, "compute 0"),
          name("thread_name", 1, 1, "compute 1"),
          name("thread_name", 1, 4, "up"),
          name("thread_name", 2, 4, "up"),
          call("dgemm", 0, 50),
          span(1, 0, 10, 20, "old"),
          call("dtrsm", 1000, 100),
          span(1, 4, 1000, 30),
          span(1, 0, 1020, 20, "gemm <1>"),
          span(1, 1, 1030, 20),
          span(1, 0, 1070, 10),
          span(1, 4, 1055, 10),
          span(2, 4, 1040, 10)};
}

TEST(Timeline, HasTheStreamsOfOneCall) {
  const Timeline last = read_timeline(trace(), 0);
  EXPECT_EQ(last.call, "dtrsm 3 x 4 x 5");
  EXPECT_EQ(last.length_us, 100);
  ASSERT_EQ(last.devices.size(), 2u);
  EXPECT_EQ(last.devices[0].name, "cuda:0");
  ASSERT_EQ(last.devices[0].streams.size(), 3u);
  EXPECT_EQ(last.devices[0].streams[0].name, "compute 0");
  ASSERT_EQ(last.devices[0].streams[0].spans.size(), 2u);
  EXPECT_EQ(last.devices[0].streams[0].spans[1].begin_us, 70);
  EXPECT_FALSE(last.devices[1].streams[0].computes);

  const Timeline first = read_timeline(trace(), 1);
  EXPECT_EQ(first.call, "dgemm 3 x 4 x 5");
  EXPECT_EQ(first.devices[0].streams[0].spans[0].name, "old");
  // A report must show idle devices, too.
  ASSERT_EQ(first.devices.size(), 2u);
  EXPECT_EQ(first.devices[1].name, "cuda:1");
  EXPECT_TRUE(first.devices[1].streams.empty());
  EXPECT_EQ(first.devices[1].lost_time(50).tail_us, 50);
  EXPECT_EQ(first.devices[1].shares(50).other_us, 50);
}

TEST(Timeline, SaysWhereTheTimeWent) {
  const Timeline timeline = read_timeline(trace(), 2);
  const LostTime time = timeline.devices[0].lost_time(timeline.length_us);
  EXPECT_EQ(time.start_up_us, 20);
  EXPECT_EQ(time.compute_us, 30 + 10);
  EXPECT_EQ(time.waiting_us, 20);
  EXPECT_EQ(time.tail_us, 20);
  const SharesOfTime shares = timeline.devices[0].shares(timeline.length_us);
  EXPECT_EQ(shares.compute_us, 40);
  EXPECT_EQ(shares.transfer_us, 20 + 10);
  EXPECT_EQ(shares.other_us, 30);
  // A device that only copied.
  EXPECT_EQ(timeline.devices[1].lost_time(100).tail_us, 100);
  EXPECT_EQ(timeline.devices[1].shares(100).transfer_us, 10);
}

TEST(Timeline, WhatIsMissingIsSaid) {
  EXPECT_THROW(read_timeline(json::array(), 0), std::runtime_error);
  EXPECT_THROW(read_timeline(trace(), 3), std::runtime_error);
  EXPECT_THROW(read_timeline(json::array({json::object()}), 0), json::exception);
}

TEST(Timeline, IsDrawnWithARowForEachStream) {
  const std::string svg = draw_svg(read_timeline(trace(), 0));
  EXPECT_THAT(svg, HasSubstr("<svg "));
  EXPECT_THAT(svg, HasSubstr("dtrsm 3 x 4 x 5"));
  for (const char* row : {"cuda:0 compute 0", "cuda:0 compute 1", "cuda:0 up", "cuda:1 up"})
    EXPECT_THAT(svg, HasSubstr(row));
  EXPECT_THAT(svg, HasSubstr("gemm &lt;1&gt;"));
  EXPECT_THAT(svg, HasSubstr("kernels: 40.0 %"));
}

}  // namespace timeline_test
}  // namespace tessera::tools
