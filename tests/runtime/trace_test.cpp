// Trace files: who writes which one, and what stands in them.
#include "runtime/trace.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/runtime/some_job.hpp"
#include "tests/temporary_folder.hpp"

namespace tessera::runtime {
namespace trace_test {

using test::some_job;

class TraceFiles : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::size_t file_count() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }

  static void append(TraceFile& file, const std::string& routine) {
    JobStatistics job;
    job.routine = routine;
    file.append(job, 1.5, {"host:0"}, {{{.stream = {device::StreamKind::up}, .begin_s = 2, .end_s = 3}}});
  }

  /// The calls of a file. Fails if it is not a whole trace.
  std::vector<std::string> calls_in(const std::string& name) const {
    std::vector<std::string> calls;
    for (const auto& event : nlohmann::json::parse(std::ifstream(path(name)))) {
      if (event.at("ph") == "X" && event.at("pid") == 0) calls.push_back(event.at("name"));
    }
    return calls;
  }

  test::TemporaryFolder folder_;
};

using Calls = std::vector<std::string>;

TEST_F(TraceFiles, IsWholeAfterEachJobAndOverwritesWhatAnEndedWriterLeft) {
  std::ofstream(path("t.json")) << std::string(100000, 'x');
  {
    TraceFile file(path("t.json"));
    append(file, "dgemm");
    EXPECT_EQ(calls_in("t.json"), Calls({"dgemm"}));
    append(file, "dtrsm");
    EXPECT_EQ(calls_in("t.json"), Calls({"dgemm", "dtrsm"}));
  }
  TraceFile next(path("t.json"));
  append(next, "zherk");
  EXPECT_EQ(calls_in("t.json"), Calls({"zherk"}));
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(TraceFiles, ProcessesAtTheSameTimeHaveFilesOfTheirOwn) {
  TraceFile mine(path("t.json"));
  append(mine, "dgemm");
  const pid_t child = fork();
  if (child == 0) {
    TraceFile file(path("t.json"));
    append(file, "dtrsm");
    append(file, "dtrmm");
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  append(mine, "dsyrk");
  EXPECT_EQ(calls_in("t.json"), Calls({"dgemm", "dsyrk"}));
  EXPECT_EQ(calls_in("t." + std::to_string(child) + ".json"), Calls({"dtrsm", "dtrmm"}));
  EXPECT_EQ(file_count(), 2u);
}

TEST_F(TraceFiles, SoHaveContextsOfOneProcess) {
  TraceFile first(path("t"));
  TraceFile second(path("t"));
  TraceFile third(path("t"));
  append(first, "dgemm");
  append(second, "dtrsm");
  append(third, "dtrmm");
  append(first, "dsyrk");
  const std::string own = "t." + std::to_string(getpid());
  EXPECT_EQ(calls_in("t"), Calls({"dgemm", "dsyrk"}));
  EXPECT_EQ(calls_in(own), Calls({"dtrsm"}));
  EXPECT_EQ(calls_in(own + "-2"), Calls({"dtrmm"}));
}

TEST_F(TraceFiles, TheProcessNumberCanBePartOfTheName) {
  const std::string number = std::to_string(getpid());
  TraceFile file(path("of-%p-%p.json"));
  append(file, "dgemm");
  EXPECT_EQ(calls_in("of-" + number + "-" + number + ".json"), Calls({"dgemm"}));
}

TEST_F(TraceFiles, SaysOnceThatItCannotBeWritten) {
  std::filesystem::create_symlink(path("elsewhere"), path("link"));
  TraceFile file(path("link"));
  testing::internal::CaptureStderr();
  append(file, "dgemm");
  append(file, "dgemm");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tessera: cannot write the trace file " + path("link") + ": it is a symbolic link\n");
  EXPECT_FALSE(std::filesystem::exists(path("elsewhere")));
}

TEST_F(TraceFiles, AreValidJsonAfterEveryJob) {
  TraceFile trace(path("trace.json"));
  const device::Operation kernel{.stream = {device::StreamKind::compute, 2},
                                 .begin_s = 11,
                                 .end_s = 11.5,
                                 .flops = 9,
                                 .task = 4,
                                 .step = 1,
                                 .kernel = "trsm"};
  const device::Operation up{.stream = {device::StreamKind::up}, .begin_s = 10, .end_s = 11, .bytes = 64};
  const auto read = [&] { return nlohmann::json::parse(std::ifstream(path("trace.json"))); };
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
}

TEST_F(TraceFiles, AnUnwritableFileDoesNoHarm) {
  TraceFile trace("/nonexistent_folder/trace.json");
  trace.append(some_job(), 0, {"host:0", "host:1"}, {{}, {}});
  TraceFile none("");
  none.append(some_job(), 0, {"host:0", "host:1"}, {{}, {}});
}

}  // namespace trace_test
}  // namespace tessera::runtime
