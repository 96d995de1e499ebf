// Settings: accepted values, refused values, and the messages about them.
#include "core/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "core/error.hpp"

namespace tessera {
namespace config_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* names[] = {"TESSERA_DEVICES",
                                 "TESSERA_HOST_DEVICE",
                                 "TESSERA_DEVICE_MEMORY",
                                 "TESSERA_TILE",
                                 "TESSERA_OFFLOAD",
                                 "TESSERA_CPU_BLAS",
                                 "TESSERA_CUDA_PLUGIN",
                                 "TESSERA_VERBOSE",
                                 "TESSERA_STATS",
                                 "TESSERA_TRACE",
                                 "TESSERA_SUMMARY",
                                 "TESSERA_SHARE",
                                 "TESSERA_COPY_THREADS",
                                 "TESSERA_CPU_WORKER",
                                 "TESSERA_DEVICE_MEMORY_MODE",
                                 "TESSERA_KEEP_OLD_VALUES",
                                 "TESSERA_RESIDENT",
                                 "TESSERA_RESIDENT_MEMORY",
                                 "TESSERA_RESIDENT_ANYWHERE"};
constexpr const char* launcher_names[] = {"OMPI_COMM_WORLD_LOCAL_RANK",
                                          "OMPI_COMM_WORLD_LOCAL_SIZE",
                                          "MV2_COMM_WORLD_LOCAL_RANK",
                                          "MV2_COMM_WORLD_LOCAL_SIZE",
                                          "MPI_LOCALRANKID",
                                          "MPI_LOCALNRANKS",
                                          "PALS_LOCAL_RANKID",
                                          "PALS_LOCAL_SIZE",
                                          "PMI_LOCAL_RANK",
                                          "PMI_LOCAL_SIZE",
                                          "SLURM_STEP_TASKS_PER_NODE"};

/// Starts without any setting and restores the environment.
class ConfigTest : public testing::Test {
 protected:
  ConfigTest() {
    for (const char* name : names) hide(name);
    for (const char* name : launcher_names) hide(name);
  }
  ~ConfigTest() override {
    for (const char* name : names) unsetenv(name);
    for (const char* name : launcher_names) unsetenv(name);
    for (const auto& [name, value] : saved_) setenv(name.c_str(), value.c_str(), 1);
  }

  static std::string message_of(const std::string& settings) {
    try {
      Config::from_settings(settings);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  }

  /// Reads the environment with one variable set. @return the output on standard error
  static std::string complaint_about(const char* name, const std::string& value, Config& config) {
    setenv(name, value.c_str(), 1);
    testing::internal::CaptureStderr();
    config = Config::from_environment();
    unsetenv(name);
    return testing::internal::GetCapturedStderr();
  }

 private:
  void hide(const char* name) {
    if (const char* value = std::getenv(name)) saved_[name] = value;
    unsetenv(name);
  }

  std::map<std::string, std::string> saved_;
};

TEST(ParseBytes, TakesDecimalAndBinarySuffixes) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  EXPECT_EQ(parse_bytes("4096B"), 4096u);
  EXPECT_EQ(parse_bytes("2kB"), 2000u);
  EXPECT_EQ(parse_bytes("2KiB"), 2048u);
  EXPECT_EQ(parse_bytes("64MiB"), std::size_t{64} << 20);
  EXPECT_EQ(parse_bytes("64mib"), std::size_t{64} << 20);
  EXPECT_EQ(parse_bytes("2GB"), 2000000000u);
  EXPECT_EQ(parse_bytes("1.5GiB"), std::size_t{3} << 29);
  EXPECT_EQ(parse_bytes("3TB"), 3000000000000u);
  EXPECT_EQ(parse_bytes("1TiB"), std::size_t{1} << 40);
  EXPECT_EQ(parse_bytes("9223372036854775807"), 9223372036854775807u);
}

TEST(ParseBytes, RefusesEverythingElse) {
  for (const char* text : {"",
                           " ",
                           "-1",
                           "-0",
                           "+1",
                           "x",
                           "1x",
                           "1 MiB",
                           " 1",
                           "1 ",
                           "MiB",
                           "1MiBB",
                           "1e3",
                           "0x10",
                           "inf",
                           "nan",
                           "1.5.5",
                           ".5GiB",
                           "9223372036854775808",
                           "9999999TiB",
                           "1MiB/s",
                           "1,5GiB",
                           "1M"}) {
    EXPECT_THROW(parse_bytes(text), InvalidArgument) << '"' << text << '"';
  }
}

TEST_F(ConfigTest, NothingSetGivesTheDefaults) {
  const Config config = Config::from_environment();
  EXPECT_EQ(config.devices, DeviceChoice::automatic);
  EXPECT_TRUE(config.offload.weighs());
  EXPECT_EQ(config.offload.general, OffloadRule{});
  EXPECT_TRUE(config.offload.named.empty());
  EXPECT_FALSE(config.summary.has_value());
  EXPECT_FALSE(config.tile || config.device_memory_bytes);
  EXPECT_FALSE(config.verbose);
  EXPECT_EQ(config.host_device.size(), 1u);
  EXPECT_EQ(config.host_device_settings(0).fail_after_ops, -1);
  EXPECT_EQ(config.host_device_settings(0).refused_op, -1);
}

TEST_F(ConfigTest, EverySettingIsRead) {
  const Config config = Config::from_settings(
      " TESSERA_DEVICES=host:3\tTESSERA_HOST_DEVICE=memory=64MiB,link=2GB/s,peer=10GB/s,speed=100GFLOP/s,delay=5us,"
      "start=2s,compute=off,fail=100,refuse=7\nTESSERA_DEVICE_MEMORY=1GiB TESSERA_COPY_THREADS=5 TESSERA_TILE=512 "
      "TESSERA_OFFLOAD=always "
      "TESSERA_CPU_BLAS=/lib/x.so "
      "TESSERA_CUDA_PLUGIN=/lib/y.so TESSERA_VERBOSE=1 TESSERA_STATS=s.json TESSERA_TRACE=t.json "
      "TESSERA_SUMMARY=calls.txt");
  EXPECT_EQ(config.devices, DeviceChoice::host);
  EXPECT_EQ(config.host_devices, 3);
  ASSERT_EQ(config.host_device.size(), 1u);
  const HostDeviceSettings& device = config.host_device_settings(2);
  EXPECT_EQ(device.memory_bytes, std::size_t{64} << 20);
  EXPECT_DOUBLE_EQ(device.link_bytes_per_s, 2e9);
  EXPECT_DOUBLE_EQ(device.peer_bytes_per_s, 1e10);
  EXPECT_EQ(device.flops_per_s, 1e11);
  EXPECT_DOUBLE_EQ(device.delay_s, 5e-6);
  EXPECT_DOUBLE_EQ(device.start_s, 2);
  EXPECT_FALSE(device.compute);
  EXPECT_EQ(device.fail_after_ops, 100);
  EXPECT_EQ(device.refused_op, 7);
  EXPECT_EQ(device.failing_operation, FailingOperation::any);
  EXPECT_EQ(config.device_memory_bytes, std::size_t{1} << 30);
  EXPECT_EQ(config.copy_threads, 5);
  EXPECT_EQ(config.tile, 512);
  EXPECT_EQ(config.offload.general, OffloadRule{Offload::always});
  EXPECT_EQ(config.summary, "calls.txt");
  EXPECT_EQ(config.cpu_blas, "/lib/x.so");
  EXPECT_EQ(config.plugin_file, "/lib/y.so");
  EXPECT_TRUE(config.verbose);
  EXPECT_EQ(config.stats_file, "s.json");
  EXPECT_EQ(config.trace_file, "t.json");
}

TEST_F(ConfigTest, AValueInQuotationMarksMayHaveAnyCharacter) {
  const Config config = Config::from_settings(
      "TESSERA_STATS=\"/my files/\ts\n.json\" TESSERA_TRACE=\"say \\\"t\\\" C:\\\\x=1\"\tTESSERA_TILE=\"64\" "
      "TESSERA_SUMMARY=a\"b\\c TESSERA_CPU_BLAS=\"\"");
  EXPECT_EQ(config.stats_file, "/my files/\ts\n.json");
  EXPECT_EQ(config.trace_file, "say \"t\" C:\\x=1");
  EXPECT_EQ(config.tile, 64);
  EXPECT_EQ(config.summary, "a\"b\\c");  // quotation marks in the middle are ordinary characters
  EXPECT_EQ(config.cpu_blas, "");
  EXPECT_THAT(message_of("TESSERA_STATS=\"a b"), HasSubstr("quotation mark is missing"));
  EXPECT_THAT(message_of("TESSERA_STATS=\"a b\\\""), HasSubstr("quotation mark is missing"));
  EXPECT_THAT(message_of("TESSERA_STATS=\"a\"b"), HasSubstr("white space must follow \"a\""));
  EXPECT_THAT(message_of("my TESSERA_TILE=64"), HasSubstr("\"my\" is not of the form NAME=value"));
}

TEST_F(ConfigTest, CpuWorker) {
  EXPECT_EQ(Config().cpu_worker, CpuWorkerUse::automatic);
  EXPECT_EQ(Config::from_settings("TESSERA_CPU_WORKER=on").cpu_worker, CpuWorkerUse::always);
  EXPECT_EQ(Config::from_settings("TESSERA_CPU_WORKER=0").cpu_worker, CpuWorkerUse::never);
  EXPECT_EQ(Config::from_settings("TESSERA_CPU_WORKER=auto").cpu_worker, CpuWorkerUse::automatic);
  EXPECT_THAT(message_of("TESSERA_CPU_WORKER=maybe"), HasSubstr("auto, on or off"));
}

TEST_F(ConfigTest, AFailureMayCountOneKindOfOperation) {
  const auto device = [](const std::string& text) {
    return Config::from_settings("TESSERA_DEVICES=host:1 TESSERA_HOST_DEVICE=" + text).host_device_settings(0);
  };
  EXPECT_EQ(device("fail=down:3").failing_operation, FailingOperation::down);
  EXPECT_EQ(device("fail=down:3").fail_after_ops, 3);
  EXPECT_EQ(device("fail=kernel:0").failing_operation, FailingOperation::kernel);
  EXPECT_EQ(device("fail=up:1").failing_operation, FailingOperation::up);
  EXPECT_EQ(device("fail=peer:2").failing_operation, FailingOperation::peer);
  EXPECT_EQ(device("fail=to_peer:4").failing_operation, FailingOperation::to_peer);
  EXPECT_THAT(message_of("TESSERA_HOST_DEVICE=fail=sideways:3"), HasSubstr("KIND:COUNT"));
}

TEST_F(ConfigTest, OldValuesAreKept) {
  const auto place = [](const std::string& text) {
    return Config::from_settings("TESSERA_KEEP_OLD_VALUES=" + text).keep_old_values;
  };
  EXPECT_EQ(Config().keep_old_values, OldValuesPlace::in_place);
  EXPECT_EQ(place("on"), OldValuesPlace::in_place);
  EXPECT_EQ(place("copies"), OldValuesPlace::host);
  EXPECT_EQ(place("peers"), OldValuesPlace::peers);
  EXPECT_EQ(place("off"), OldValuesPlace::nowhere);
  EXPECT_THAT(message_of("TESSERA_KEEP_OLD_VALUES=host"), HasSubstr("on, copies, peers or off"));
}

TEST_F(ConfigTest, MemoryMode) {
  EXPECT_EQ(Config().memory_mode, MemoryMode::grow);
  EXPECT_EQ(Config::from_settings("TESSERA_DEVICE_MEMORY_MODE=whole").memory_mode, MemoryMode::whole);
  EXPECT_EQ(Config::from_settings("TESSERA_DEVICE_MEMORY_MODE=grow").memory_mode, MemoryMode::grow);
  EXPECT_THAT(message_of("TESSERA_DEVICE_MEMORY_MODE=half"), HasSubstr("grow or whole"));
}

TEST_F(ConfigTest, Resident) {
  const Config none;
  EXPECT_EQ(none.resident, Resident::off);
  EXPECT_FALSE(none.resident_bytes);
  EXPECT_FALSE(none.watches_any_memory);
  EXPECT_EQ(Config::from_settings("TESSERA_RESIDENT=off").resident, Resident::off);
  EXPECT_EQ(Config::from_settings("TESSERA_RESIDENT=matrices").resident, Resident::named);
  EXPECT_EQ(Config::from_settings("TESSERA_RESIDENT=verify").resident, Resident::verified);
  const Config given =
      Config::from_settings("TESSERA_RESIDENT=auto TESSERA_RESIDENT_MEMORY=3MiB TESSERA_RESIDENT_ANYWHERE=1");
  EXPECT_EQ(given.resident, Resident::automatic);
  EXPECT_EQ(given.resident_bytes, std::size_t{3} << 20);
  EXPECT_TRUE(given.watches_any_memory);
  EXPECT_THAT(message_of("TESSERA_RESIDENT=on"), HasSubstr("off, matrices, auto or verify"));
}

TEST_F(ConfigTest, CopyThreadsFollowTheProcessors) {
  const Config config;
  EXPECT_EQ(config.copy_threads_of(1, 16, 12, 4), 12);
  EXPECT_EQ(config.copy_threads_of(1, 8, 12, 4), 8);
  EXPECT_EQ(config.copy_threads_of(8, 128, 12, 4), 12);
  EXPECT_EQ(config.copy_threads_of(4, 16, 12, 4), 4);
  EXPECT_EQ(config.copy_threads_of(1, 16, 6, 4), 6);
  EXPECT_EQ(config.copy_threads_of(1, 16, 12, 13), 0);
  // With so few threads page-locking is faster.
  EXPECT_EQ(config.copy_threads_of(1, 3, 12, 4), 0);
  EXPECT_EQ(config.copy_threads_of(8, 16, 12, 4), 0);
  for (const int threads : {0, 2, 256}) {
    const std::string text = "TESSERA_COPY_THREADS=" + std::to_string(threads);
    EXPECT_EQ(Config::from_settings(text).copy_threads_of(8, 16, 12, 4), threads);
  }
  for (const char* wrong : {"-1", "257", "auto", "2.5"})
    EXPECT_THAT(message_of(std::string("TESSERA_COPY_THREADS=") + wrong), HasSubstr("0 to 256"));
}

TEST_F(ConfigTest, ChoicesOfDevices) {
  EXPECT_EQ(Config::from_settings("TESSERA_DEVICES=auto").devices, DeviceChoice::automatic);
  EXPECT_EQ(Config::from_settings("TESSERA_DEVICES=none").devices, DeviceChoice::none);
  const Config all = Config::from_settings("TESSERA_DEVICES=cuda");
  EXPECT_EQ(all.devices, DeviceChoice::plugin);
  EXPECT_TRUE(all.ordinals.empty());
  EXPECT_THAT(Config::from_settings("TESSERA_DEVICES=cuda:2,0").ordinals, ElementsAre(2, 0));
}

TEST_F(ConfigTest, HostDevicesDifferAndTheLastRepeats) {
  const Config config = Config::from_settings("TESSERA_HOST_DEVICE=speed=1GFLOP/s;;speed=3GFLOP/s,memory=8MB");
  ASSERT_EQ(config.host_device.size(), 3u);
  EXPECT_EQ(config.host_device_settings(0).flops_per_s, 1e9);
  EXPECT_EQ(config.host_device_settings(1).flops_per_s, 0);
  EXPECT_EQ(config.host_device_settings(2).flops_per_s, 3e9);
  EXPECT_EQ(config.host_device_settings(7).memory_bytes, 8000000u);
}

TEST_F(ConfigTest, RatesAndTimesInTheirUnits) {
  const auto device = [](const std::string& text) {
    return Config::from_settings("TESSERA_HOST_DEVICE=" + text).host_device_settings(0);
  };
  EXPECT_DOUBLE_EQ(device("link=1.5GiB/s").link_bytes_per_s, 1.5 * 1073741824.0);
  EXPECT_DOUBLE_EQ(device("link=1000").link_bytes_per_s, 1000);
  EXPECT_EQ(device("speed=0.4TFLOP/s").flops_per_s, 4e11);
  EXPECT_EQ(device("speed=4GFLOP/s,speed=d:100MFLOP/s").flops_per_s, RatesByType(4e9, 1e8, 4e9, 4e9));
  EXPECT_EQ(device("speed=s:1,speed=d:2,speed=c:3,speed=z:4").flops_per_s, RatesByType(1, 2, 3, 4));
  EXPECT_EQ(device("speed=d:2,speed=3").flops_per_s, 3);  // the last one counts
  EXPECT_DOUBLE_EQ(device("delay=2ms").delay_s, 2e-3);
  EXPECT_DOUBLE_EQ(device("delay=20ns").delay_s, 2e-8);
  EXPECT_TRUE(device("compute=on").compute);
}

TEST_F(ConfigTest, SettingsWinOverTheEnvironmentAndAnEmptyValueIsTheDefault) {
  setenv("TESSERA_TILE", "64", 1);
  setenv("TESSERA_OFFLOAD", "never", 1);
  EXPECT_EQ(Config::from_environment().tile, 64);
  const Config config = Config::from_settings("TESSERA_TILE=128");
  EXPECT_EQ(config.tile, 128);
  EXPECT_TRUE(config.offload.never());
  EXPECT_FALSE(Config::from_settings("TESSERA_TILE=").tile.has_value());
}

TEST_F(ConfigTest, OffloadRulesAreNamed) {
  const auto rules = [](const std::string& text) { return Config::from_settings("TESSERA_OFFLOAD=" + text).offload; };
  const OffloadRules several = rules("auto,trsm=never,zherk=2000");
  EXPECT_EQ(several.general, OffloadRule{});
  ASSERT_EQ(several.named.size(), 2u);
  EXPECT_EQ(several.named[0], std::pair(std::string("trsm"), OffloadRule{Offload::never}));
  EXPECT_EQ(several.named[1], std::pair(std::string("zherk"), OffloadRule{Offload::by_size, 8000000000}));
  EXPECT_TRUE(several.weighs());
  EXPECT_FALSE(several.never());
  EXPECT_TRUE(rules("dgemm=always,never").never());
  EXPECT_FALSE(rules("never,dgemm=always").never());
  EXPECT_FALSE(rules("always,dgemm=500").weighs());
  EXPECT_TRUE(rules("always,dgemm=auto").weighs());
  const OffloadRule largest{Offload::by_size, index_t{2097151} * 2097151 * 2097151};
  EXPECT_EQ(rules("2097151").general, largest);
}

TEST_F(ConfigTest, ASummaryGoesToStandardErrorOrAFile) {
  const auto summary = [](const std::string& text) { return Config::from_settings("TESSERA_SUMMARY=" + text).summary; };
  EXPECT_EQ(summary("1"), "");
  EXPECT_EQ(summary("on"), "");
  EXPECT_EQ(summary("calls.txt"), "calls.txt");
  setenv("TESSERA_SUMMARY", "calls.txt", 1);
  EXPECT_EQ(summary("0"), std::nullopt);
  EXPECT_EQ(summary("off"), std::nullopt);
  EXPECT_EQ(summary(""), std::nullopt);
}

TEST_F(ConfigTest, TheLauncherSaysWhatPartOfTheHost) {
  EXPECT_EQ(Config::from_environment().local_rank, std::nullopt);
  EXPECT_EQ(Config::from_environment().local_ranks(), 1);
  setenv("MPI_LOCALRANKID", "1", 1);
  setenv("MPI_LOCALNRANKS", "4", 1);
  const LocalRank second{1, 4, "Hydra"};
  EXPECT_EQ(Config().local_rank, std::nullopt);
  EXPECT_EQ(Config::from_environment().local_rank, second);
  EXPECT_EQ(Config::from_settings("TESSERA_TILE=16").local_rank, second);
  EXPECT_EQ(Config::from_settings("TESSERA_SHARE=off").local_rank, std::nullopt);
  EXPECT_EQ(Config::from_settings("TESSERA_SHARE=2/3").local_rank, (LocalRank{2, 3, "TESSERA_SHARE"}));
  EXPECT_EQ(Config::from_settings("TESSERA_SHARE=2/3").local_ranks(), 3);
  setenv("TESSERA_SHARE", "off", 1);
  EXPECT_EQ(Config::from_environment().local_rank, std::nullopt);
  EXPECT_EQ(Config::from_settings("TESSERA_SHARE=auto").local_rank, second);
  EXPECT_EQ(Config::from_settings("TESSERA_SHARE=").local_rank, second);
  Config config;
  EXPECT_THAT(complaint_about("TESSERA_SHARE", "4/4", config), HasSubstr("counted from 0"));
  EXPECT_EQ(config.local_rank, second);
}

TEST_F(ConfigTest, DevicesAreDividedUnlessTheyAreNamed) {
  const auto share_of = [](const std::string& settings, int visible) {
    return Config::from_settings(settings).device_share(visible);
  };
  EXPECT_EQ(share_of("TESSERA_DEVICES=host:4", 4), (DeviceShare{0, 4, 1}));
  EXPECT_EQ(share_of("TESSERA_DEVICES=host:4 TESSERA_SHARE=1/2", 4), (DeviceShare{2, 2, 1}));
  EXPECT_EQ(share_of("TESSERA_DEVICES=host:1 TESSERA_SHARE=1/2", 1), (DeviceShare{0, 1, 2}));
  EXPECT_EQ(share_of("TESSERA_DEVICES=cuda TESSERA_SHARE=3/4", 8), (DeviceShare{6, 2, 1}));
  EXPECT_EQ(share_of("TESSERA_DEVICES=auto TESSERA_SHARE=3/4", 1), (DeviceShare{0, 1, 4}));
  EXPECT_EQ(share_of("TESSERA_DEVICES=cuda:0,2 TESSERA_SHARE=1/2", 2), (DeviceShare{0, 2, 1}));
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  EXPECT_EQ(share_of("TESSERA_DEVICES=host:4", 4), (DeviceShare{2, 2, 1}));
  EXPECT_EQ(share_of("TESSERA_DEVICES=host:4 TESSERA_SHARE=off", 4), (DeviceShare{0, 4, 1}));
}

TEST_F(ConfigTest, WrongSettingsAreRefused) {
  for (const char* settings : {"TESSERA_DEVICES=gpu",
                               "TESSERA_DEVICES=host",
                               "TESSERA_DEVICES=host:",
                               "TESSERA_DEVICES=host:0",
                               "TESSERA_DEVICES=host:65",
                               "TESSERA_DEVICES=host:3x",
                               "TESSERA_DEVICES=host:-1",
                               "TESSERA_DEVICES=cuda:",
                               "TESSERA_DEVICES=cuda:0,",
                               "TESSERA_DEVICES=cuda:0,0",
                               "TESSERA_DEVICES=cuda:-1",
                               "TESSERA_DEVICES=AUTO",
                               "TESSERA_HOST_DEVICE=memory",
                               "TESSERA_HOST_DEVICE=memory=",
                               "TESSERA_HOST_DEVICE=memory=0",
                               "TESSERA_HOST_DEVICE=memory=1MiB,",
                               "TESSERA_HOST_DEVICE=size=1MiB",
                               "TESSERA_HOST_DEVICE=link=-1GB/s",
                               "TESSERA_HOST_DEVICE=link=1GB/s/s",
                               "TESSERA_HOST_DEVICE=speed=1GB/s",
                               "TESSERA_HOST_DEVICE=delay=5",
                               "TESSERA_HOST_DEVICE=compute=maybe",
                               "TESSERA_HOST_DEVICE=fail=-1",
                               "TESSERA_HOST_DEVICE=fail=1.5",
                               "TESSERA_HOST_DEVICE=refuse=-1",
                               "TESSERA_DEVICE_MEMORY=0",
                               "TESSERA_DEVICE_MEMORY=much",
                               "TESSERA_TILE=0",
                               "TESSERA_TILE=-16",
                               "TESSERA_TILE=16x",
                               "TESSERA_TILE=99999999999999999999",
                               "TESSERA_TILE=1.5",
                               "TESSERA_OFFLOAD=sometimes",
                               "TESSERA_OFFLOAD=auto,",
                               "TESSERA_OFFLOAD=,always",
                               "TESSERA_OFFLOAD=dgemm",
                               "TESSERA_OFFLOAD=dgemm=",
                               "TESSERA_OFFLOAD=dgemm=sometimes",
                               "TESSERA_OFFLOAD=0",
                               "TESSERA_OFFLOAD=2097152",
                               "TESSERA_OFFLOAD=gemm=1.5",
                               "TESSERA_OFFLOAD=gemm=-1",
                               "TESSERA_SHARE=1",
                               "TESSERA_SHARE=1/",
                               "TESSERA_SHARE=/2",
                               "TESSERA_SHARE=2/2",
                               "TESSERA_SHARE=-1/2",
                               "TESSERA_SHARE=0/0",
                               "TESSERA_SHARE=0/2/4",
                               "TESSERA_SHARE=0/1048577",
                               "TESSERA_SHARE=on",
                               "TESSERA_VERBOSE=2",
                               "TESSERA_VERBOSE=yes"}) {
    const std::string name = std::string(settings).substr(0, std::string(settings).find('='));
    EXPECT_THAT(message_of(settings), testing::AllOf(HasSubstr(name), HasSubstr("expected"))) << settings;
  }
}

TEST_F(ConfigTest, OffloadRulesOfRoutinesThatAreNotThereAreRefused) {
  const auto is_routine = [](std::string_view name) { return name == "dgemm"; };
  EXPECT_NO_THROW(Config::from_settings("TESSERA_OFFLOAD=dgemm=never", is_routine));
  EXPECT_THROW(Config::from_settings("TESSERA_OFFLOAD=dgemm=never,dgemv=never", is_routine), InvalidArgument);
  setenv("TESSERA_OFFLOAD", "dgemv=always", 1);
  EXPECT_TRUE(Config::from_environment(is_routine).offload.named.empty());
}

TEST_F(ConfigTest, AnUnknownNameIsRefusedWithTheValidOnes) {
  const std::string message = message_of("TESSERA_TILES=64");
  EXPECT_THAT(message, HasSubstr("\"TESSERA_TILES\""));
  for (const char* name : names) EXPECT_THAT(message, HasSubstr(name));
  EXPECT_THAT(message_of("verbose"), HasSubstr("NAME=value"));
}

TEST_F(ConfigTest, AWrongEnvironmentValueIsOneLineAndTheDefault) {
  for (const auto& [name, value] : std::map<const char*, const char*>{{"TESSERA_TILE", "abc"},
                                                                      {"TESSERA_DEVICES", "host:many"},
                                                                      {"TESSERA_OFFLOAD", "maybe"},
                                                                      {"TESSERA_HOST_DEVICE", "memory=1MiB;speed=fast"},
                                                                      {"TESSERA_DEVICE_MEMORY", "-5"},
                                                                      {"TESSERA_VERBOSE", "loud"}}) {
    Config config;
    const std::string text = complaint_about(name, value, config);
    EXPECT_TRUE(text.starts_with("tessera: ")) << text;
    EXPECT_THAT(text, HasSubstr(std::string(name) + "=\"" + value + "\""));
    EXPECT_THAT(text, HasSubstr("expected "));
    EXPECT_THAT(text, HasSubstr("the default is used"));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_FALSE(config.tile || config.device_memory_bytes || config.verbose);
    EXPECT_EQ(config.devices, DeviceChoice::automatic);
    EXPECT_EQ(config.host_device.size(), 1u);
    EXPECT_EQ(config.host_device_settings(0).memory_bytes, HostDeviceSettings{}.memory_bytes);
  }
}

TEST_F(ConfigTest, AGoodEnvironmentIsSilent) {
  Config config;
  EXPECT_EQ(complaint_about("TESSERA_TILE", "32", config), "");
  EXPECT_EQ(config.tile, 32);
}

using ConfigDeathTest = ConfigTest;

TEST_F(ConfigDeathTest, AProcessSaysItOnItsStandardError) {
  setenv("TESSERA_TILE", "abc", 1);
  EXPECT_EXIT(std::_Exit(Config::from_environment().tile.has_value() ? 1 : 0), testing::ExitedWithCode(0),
              "^tessera: TESSERA_TILE=\"abc\" is not valid: expected a whole number from 1 to 1048576; the default "
              "is used\n$");
}

}  // namespace config_test
}  // namespace tessera
