// The statistics of a call through the C API, as a structure, as text and as a file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/lapack.h"
#include "tessera/tessera.h"
#include "tessera/tessera.hpp"
#include "tests/blas_api/compared_product.hpp"

namespace tessera {
namespace c_api_statistics_test {

using test::compare_with_oracle;

constexpr const char* on_devices = "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_TILE=16 ";

TEST(CApiStatistics, OfTheLastCall) {
  const Context context(on_devices);
  tessera_job_stats stats = {};
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(tessera_last_job_stats(context.handle(), &stats), TESSERA_INVALID_ARGUMENT) << "no call yet";
  compare_with_oracle<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 64, 48, 32, 1, 1, 1);
  stats = context.last_job_stats();
  EXPECT_EQ(stats.devices, 2);
  EXPECT_EQ(stats.tile_m, 16);
  EXPECT_EQ(stats.tasks, 4 * 3);
  EXPECT_DOUBLE_EQ(stats.flops, 2.0 * 64 * 48 * 32);
  EXPECT_EQ(stats.compulsory_up, (64 * 32 + 32 * 48 + 64 * 48) * 8);
  EXPECT_EQ(stats.compulsory_down, 64 * 48 * 8);
  EXPECT_EQ(stats.bytes_down, stats.compulsory_down);
  EXPECT_GE(stats.bytes_up, stats.compulsory_up);
  EXPECT_GT(stats.seconds, 0);

  stats.struct_size = 8;
  EXPECT_EQ(tessera_last_job_stats(context.handle(), &stats), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_job_stats(context.handle(), nullptr), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 2);

  const nlohmann::json json = nlohmann::json::parse(context.last_job_json());
  EXPECT_EQ(json["routine"], "dgemm");
  EXPECT_EQ(json["devices"].size(), 2u);
}

struct Told {
  std::vector<std::string> what, where, why;
  int on_devices = 0, parts = 0;
  double flops = 0;
};
void note(const tessera_call* call, void* data) {
  Told& told = *static_cast<Told*>(data);
  EXPECT_EQ(call->struct_size, sizeof(tessera_call));
  told.what.emplace_back(call->what);
  told.where.emplace_back(call->where);
  told.why.emplace_back(call->why);
  told.on_devices += call->on_devices;
  told.parts += call->is_part;
  told.flops += call->flops;
  EXPECT_GE(call->seconds, call->start_s);
}

TEST(CApiObserver, IsToldOfEveryCallUntilItIsTakenAway) {
  Told told;
  const Context devices(on_devices), cpu("TESSERA_OFFLOAD=never");
  EXPECT_EQ(tessera_observe_calls(note, &told), TESSERA_SUCCESS);
  compare_with_oracle<double>(devices, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 64, 48, 32, 1, 1, 1);
  compare_with_oracle<double>(cpu, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 6, 4, 3, 1, 1, 1);
  ASSERT_EQ(told.what.size(), 2u);
  EXPECT_EQ(told.what.front(), "dgemm NN m=64 n=48 k=32");
  EXPECT_EQ(told.where.front(), "host:0,host:1");
  EXPECT_EQ(told.where.back(), "the CPU BLAS");
  EXPECT_EQ(told.why.back(), "TESSERA_OFFLOAD=never");
  EXPECT_EQ(told.on_devices, 1);
  EXPECT_DOUBLE_EQ(told.flops, 2.0 * 64 * 48 * 32 + 2.0 * 6 * 4 * 3);

  double A[4] = {4, 1, 1, 3}, B[2] = {1, 2};
  std::int64_t ipiv[2], info = 9;
  EXPECT_EQ(tessera_dgesv(devices.handle(), TESSERA_ROW_MAJOR, 2, 1, A, 2, ipiv, B, 1, &info), TESSERA_SUCCESS);
  EXPECT_EQ(told.what.back(), "dgesv n=2 nrhs=1");  // the whole comes last
  EXPECT_EQ(told.parts, static_cast<int>(told.what.size()) - 3);

  const std::size_t calls = told.what.size();
  EXPECT_EQ(tessera_observe_calls(nullptr, nullptr), TESSERA_SUCCESS);
  compare_with_oracle<double>(devices, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 64, 48, 32, 1, 1, 1);
  EXPECT_EQ(told.what.size(), calls);
}

/// Programs compiled with other versions of the header, whose structure ends earlier or later.
TEST(CApiStatistics, FillAsMuchAsTheProgramHas) {
  const Context context(on_devices);
  compare_with_oracle<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 64, 48, 32, 1, 1, 1);
  const tessera_job_stats expected = context.last_job_stats();
  constexpr std::size_t ours = sizeof(tessera_job_stats);
  constexpr std::size_t least = offsetof(tessera_job_stats, tile_m);
  for (const std::size_t size : {least, offsetof(tessera_job_stats, bytes_up), offsetof(tessera_job_stats, kernel_s),
                                 ours, ours + 8, ours + 1000}) {
    const std::size_t filled = std::min(size, ours);
    std::vector<std::byte> room(size + 64, std::byte{0x5a});
    std::memcpy(room.data(), &size, sizeof(size));
    ASSERT_EQ(tessera_last_job_stats(context.handle(), reinterpret_cast<tessera_job_stats*>(room.data())),
              TESSERA_SUCCESS)
        << size;
    std::size_t told = 0;
    std::memcpy(&told, room.data(), sizeof(told));
    EXPECT_EQ(told, filled);
    EXPECT_EQ(std::memcmp(room.data() + sizeof(told), reinterpret_cast<const std::byte*>(&expected) + sizeof(told),
                          filled - sizeof(told)),
              0)
        << size;
    EXPECT_TRUE(std::all_of(room.begin() + static_cast<std::ptrdiff_t>(filled), room.end(), [](std::byte byte) {
      return byte == std::byte{0x5a};
    })) << size;
  }
  for (const std::size_t size : {std::size_t{0}, least - 1}) {
    tessera_job_stats stats = {};
    stats.struct_size = size;
    EXPECT_EQ(tessera_last_job_stats(context.handle(), &stats), TESSERA_INVALID_ARGUMENT) << size;
  }
}

TEST(CApiStatistics, TextsAreCutToTheBuffer) {
  const Context context("TESSERA_DEVICES=none");
  std::size_t needed = 0;
  ASSERT_EQ(tessera_devices(context.handle(), nullptr, 0, &needed), TESSERA_SUCCESS);
  std::string whole(needed, '#');
  ASSERT_EQ(tessera_devices(context.handle(), whole.data(), needed, nullptr), TESSERA_SUCCESS);
  EXPECT_EQ(std::strlen(whole.c_str()) + 1, needed);
  std::string part(6, '#');
  ASSERT_EQ(tessera_devices(context.handle(), part.data(), 5, &needed), TESSERA_SUCCESS);
  EXPECT_EQ(part, whole.substr(0, 4) + '\0' + '#');
  EXPECT_EQ(tessera_devices(context.handle(), nullptr, 5, nullptr), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_last_error_position(), 2);
}

TEST(CApiStatistics, OneLineOfJsonPerJob) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("tessera_stats_" + std::to_string(getpid()) + ".json");
  std::filesystem::remove(file);
  {
    const Context context(std::string(on_devices) + "TESSERA_STATS=" + file.string());
    for (int repeat = 0; repeat < 3; ++repeat) {
      compare_with_oracle<float>(context, TESSERA_ROW_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 20, 33, 17, 1, 0, 1);
    }
  }
  std::ifstream stream(file);
  int lines = 0;
  for (std::string line; std::getline(stream, line); ++lines) {
    const nlohmann::json job = nlohmann::json::parse(line);
    EXPECT_EQ(job["routine"], "sgemm");
    EXPECT_EQ(job["devices"].size(), 2u);
    EXPECT_EQ(job.contains("start_up"), lines == 0);
  }
  EXPECT_EQ(lines, 3);
  std::filesystem::remove(file);
}

TEST(CApiStatistics, AFileThatCannotBeWrittenIsToldOnce) {
  testing::internal::CaptureStderr();
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Context context(std::string(on_devices) + "TESSERA_STATS=/nonexistent/stats.json");
    for (int call = 0; call < 3; ++call)
      compare_with_oracle<float>(context, TESSERA_ROW_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 20, 33, 17, 1, 0, 1);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tessera: cannot write TESSERA_STATS=/nonexistent/stats.json: No such file or directory\n");
}

TEST(CApiStatistics, TheFirstJobTellsOfDevicesThatWereOpenedBefore) {
  const Context context(std::string(on_devices) + "TESSERA_HOST_DEVICE=start=5ms");  // they are named: this opens them
  const auto begin = std::chrono::steady_clock::now();
  compare_with_oracle<double>(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, 20, 33, 17, 1, 0, 1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const nlohmann::json start_up = nlohmann::json::parse(context.last_job_json())["start_up"];
  EXPECT_GE(start_up["open_s"], 0.005);
  EXPECT_GT(start_up["first_kernel_s"], 0);
  EXPECT_LT(start_up["first_kernel_s"], took.count());
}

}  // namespace c_api_statistics_test
}  // namespace tessera
