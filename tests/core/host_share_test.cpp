// The part of a host that a rank takes: the launchers' variables, and the division of devices, memory and processors.
#include "core/host_share.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace tessera {
namespace host_share_test {

using Environment = std::map<std::string, std::string>;

EnvironmentLookup lookup(const Environment& environment) {
  return [&environment](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

std::optional<LocalRank> place_in(const Environment& environment) { return find_local_rank(lookup(environment)); }

LocalRank place(int rank, int ranks, const char* launcher = "") { return {rank, ranks, launcher}; }

struct Pair {
  const char* launcher;
  const char* rank;
  const char* ranks;
};

constexpr Pair pairs[] = {
    {"Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"Hydra", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"PALS", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
    {"PMI", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
};

TEST(LocalRanks, NobodySaysAnything) {
  EXPECT_EQ(place_in({}), std::nullopt);
  EXPECT_EQ(place_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}), std::nullopt);  // of the whole job
}

TEST(LocalRanks, EachLauncherSpeaksForItself) {
  for (const Pair& pair : pairs) {
    EXPECT_EQ(place_in({{pair.rank, "0"}, {pair.ranks, "1"}}), place(0, 1, pair.launcher));
    EXPECT_EQ(place_in({{pair.rank, "3"}, {pair.ranks, "4"}}), place(3, 4, pair.launcher));
  }
}

TEST(LocalRanks, IncompleteOrWrongValuesSayNothing) {
  for (const Pair& pair : pairs) {
    EXPECT_EQ(place_in({{pair.rank, "0"}}), std::nullopt);
    EXPECT_EQ(place_in({{pair.ranks, "4"}}), std::nullopt);
    const std::vector<std::pair<const char*, const char*>> wrong = {
        {"4", "4"},  {"5", "4"},  {"-1", "4"}, {"", "4"},   {"0", ""},    {"1x", "4"},          {"0", "4 "},
        {" 0", "4"}, {"+1", "4"}, {"0", "0"},  {"0", "-4"}, {"0x1", "4"}, {"0", "99999999999"}, {"0", "1048577"}};
    for (const auto& [rank, ranks] : wrong) {
      EXPECT_EQ(place_in({{pair.rank, rank}, {pair.ranks, ranks}}), std::nullopt) << rank << " of " << ranks;
    }
  }
}

TEST(LocalRanks, StepsOfSlurm) {
  const auto in_step = [](const char* tasks, const char* node, const char* rank) {
    return place_in({{"SLURM_STEP_TASKS_PER_NODE", tasks}, {"SLURM_NODEID", node}, {"SLURM_LOCALID", rank}});
  };
  EXPECT_EQ(in_step("4", "0", "3"), place(3, 4, "Slurm"));
  EXPECT_EQ(in_step("2(x3),1", "0", "1"), place(1, 2, "Slurm"));
  EXPECT_EQ(in_step("2(x3),1", "2", "1"), place(1, 2, "Slurm"));
  EXPECT_EQ(in_step("2(x3),1", "3", "0"), place(0, 1, "Slurm"));
  EXPECT_EQ(in_step("1,5,2(x2),7", "1", "4"), place(4, 5, "Slurm"));
  EXPECT_EQ(in_step("1,5,2(x2),7", "3", "0"), place(0, 2, "Slurm"));
  EXPECT_EQ(in_step("1,5,2(x2),7", "4", "6"), place(6, 7, "Slurm"));
  EXPECT_EQ(in_step("2(x3),1", "4", "0"), std::nullopt);  // no such node
  EXPECT_EQ(in_step("2(x3),1", "3", "1"), std::nullopt);  // no such task
  for (const char* const list :
       {"", ",", "2(x", "2(x)", "2(x3", "2x3", "(x3)", "2(x0)", "2(x3)1", "0", "-1", "two", ",4"}) {
    EXPECT_EQ(in_step(list, "0", "0"), std::nullopt) << list;
  }
  EXPECT_EQ(in_step("4", "", "0"), std::nullopt);
  EXPECT_EQ(in_step("4", "-1", "0"), std::nullopt);
  EXPECT_EQ(in_step("4", "0", "x"), std::nullopt);
}

TEST(LocalRanks, ABatchScriptIsNoRank) {
  EXPECT_EQ(place_in({{"SLURM_TASKS_PER_NODE", "4"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "0"}}), std::nullopt);
}

TEST(LocalRanks, SlurmStartsTheDaemonsOfOthers) {
  const Environment daemon = {{"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}, {"SLURM_NODEID", "1"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(place_in(daemon), place(0, 1, "Slurm"));
  for (const Pair& pair : pairs) {
    Environment rank = daemon;
    rank[pair.rank] = "2";
    EXPECT_EQ(place_in(rank), place(0, 1, "Slurm"));
    rank[pair.ranks] = "4";
    EXPECT_EQ(place_in(rank), place(2, 4, pair.launcher));
    rank[pair.rank] = "4";
    EXPECT_EQ(place_in(rank), std::nullopt);  // rather than use another launcher's variables
  }
}

TEST(DevicesOfARank, AreAPartition) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int devices = 0; devices <= 16; ++devices) {
      std::vector<int> users(static_cast<std::size_t>(devices), 0);
      std::vector<double> memory(static_cast<std::size_t>(devices), 0);
      std::vector<int> sharers;
      int least = devices;
      int most = 0;
      int next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE(testing::Message() << "rank " << rank << " of " << ranks << ", " << devices << " devices");
        const DeviceShare share = divide_devices(rank, ranks, devices);
        least = std::min(least, share.count);
        most = std::max(most, share.count);
        ASSERT_EQ(share.count > 0, devices > 0);
        ASSERT_GE(share.sharers, 1);
        if (ranks <= devices) {
          EXPECT_EQ(share.first, next);  // in order, without gaps or overlaps
          EXPECT_EQ(share.sharers, 1);
        } else if (devices > 0) {
          EXPECT_TRUE(share.first == next || share.first == next - 1);
          EXPECT_EQ(share.count, 1);
        }
        next = share.first + share.count;
        ASSERT_LE(next, devices);
        for (const int device : share.ordinals()) {
          ++users[static_cast<std::size_t>(device)];
          memory[static_cast<std::size_t>(device)] +=
              static_cast<double>(memory_to_take(std::size_t{1} << 40, std::size_t{1} << 40, share.sharers)) / 0x1p40;
        }
        sharers.push_back(share.sharers);
      }
      EXPECT_EQ(next, devices);
      EXPECT_LE(most - least, 1);
      for (std::size_t device = 0; device < users.size(); ++device) {
        EXPECT_GE(users[device], 1);
        EXPECT_LE(memory[device], 0.8 + 1e-9);
        EXPECT_GE(memory[device], 0.79);
      }
      for (int rank = 0; rank < ranks && devices > 0; ++rank) {
        const DeviceShare share = divide_devices(rank, ranks, devices);
        EXPECT_EQ(share.sharers, users[static_cast<std::size_t>(share.first)]);
      }
      const auto [low, high] = std::minmax_element(users.begin(), users.end());
      EXPECT_TRUE(devices == 0 || *high - *low <= 1);
    }
  }
}

TEST(DevicesOfARank, Examples) {
  EXPECT_EQ(divide_devices(1, 2, 8), (DeviceShare{4, 4, 1}));
  EXPECT_EQ(divide_devices(2, 3, 8), (DeviceShare{5, 3, 1}));
  EXPECT_EQ(divide_devices(3, 4, 4), (DeviceShare{3, 1, 1}));
  EXPECT_EQ(divide_devices(3, 8, 4), (DeviceShare{1, 1, 2}));
  EXPECT_EQ(divide_devices(2, 4, 1), (DeviceShare{0, 1, 4}));
  EXPECT_EQ(divide_devices(most_ranks - 1, most_ranks, 64), (DeviceShare{63, 1, most_ranks / 64}));
  EXPECT_EQ(divide_devices(0, 4, 0).count, 0);
}

TEST(GpusOfARank, AllSeeTheWholeHost) {
  for (const HostGpus& host : {HostGpus{}, HostGpus{.count = 4}, HostGpus{.count = 4, .granted = true}}) {
    EXPECT_EQ(share_of_gpus(place(1, 4), 4, host), (DeviceShare{1, 1, 1}));
    EXPECT_EQ(share_of_gpus(place(1, 2), 4, host), (DeviceShare{2, 2, 1}));
    EXPECT_EQ(share_of_gpus(place(5, 8), 4, host), (DeviceShare{2, 1, 2}));
  }
  EXPECT_EQ(share_of_gpus(place(2, 4), 1, {.count = 1}), (DeviceShare{0, 1, 4}));
}

TEST(GpusOfARank, EachSeesItsOwn) {
  // A wrapper that sets CUDA_VISIBLE_DEVICES to the local rank, or to the local rank modulo the number of GPUs.
  EXPECT_EQ(share_of_gpus(place(3, 4), 1, {.count = 4}), (DeviceShare{0, 1, 1}));
  EXPECT_EQ(share_of_gpus(place(1, 2), 1, {.count = 8}), (DeviceShare{0, 1, 1}));
  EXPECT_EQ(share_of_gpus(place(7, 8), 1, {.count = 4}), (DeviceShare{0, 1, 2}));
  EXPECT_EQ(share_of_gpus(place(5, 6), 1, {.count = 4}), (DeviceShare{0, 1, 2}));
  // One that gives each of two ranks a socket's GPUs.
  EXPECT_EQ(share_of_gpus(place(1, 2), 4, {.count = 8}), (DeviceShare{0, 4, 1}));
  // srun --gpu-bind, or --gpus-per-task where the number on the host is unknown.
  EXPECT_EQ(share_of_gpus(place(1, 2), 2, {.count = 8, .granted = true}), (DeviceShare{0, 2, 1}));
  EXPECT_EQ(share_of_gpus(place(5, 8), 2, {.count = 4, .granted = true}), (DeviceShare{0, 2, 4}));
  EXPECT_EQ(share_of_gpus(place(1, 2), 2, {.per_rank = 2}), (DeviceShare{0, 2, 1}));
}

TEST(GpusOfARank, AllSeeTheSamePartOfTheHost) {
  // Some GPUs of a larger machine, granted by a batch system that Tessera does not know, or chosen by the user.
  EXPECT_EQ(share_of_gpus(place(1, 2), 2, {.count = 8}), (DeviceShare{1, 1, 1}));
  EXPECT_EQ(share_of_gpus(place(3, 4), 2, {.count = 4}), (DeviceShare{1, 1, 2}));
  // Slurm granted one GPU of eight.
  EXPECT_EQ(share_of_gpus(place(3, 4), 1, {.count = 1, .granted = true}), (DeviceShare{0, 1, 4}));
  // A promise that was not kept: the ranks see more than that.
  EXPECT_EQ(share_of_gpus(place(3, 4), 4, {.count = 4, .granted = true, .per_rank = 1}), (DeviceShare{3, 1, 1}));
}

TEST(GpusOfARank, OneRankTakesWhatItSees) {
  for (int visible = 1; visible <= 8; ++visible) {
    for (int count = 0; count <= 8; ++count) {
      for (const bool granted : {false, true}) {
        EXPECT_EQ(share_of_gpus(place(0, 1), visible, {count, granted, 0}), (DeviceShare{0, visible, 1}));
      }
    }
  }
  EXPECT_EQ(share_of_gpus(place(1, 2), 0, {.count = 4}).count, 0);
}

/// For any number of ranks that see all GPUs, or that each see their own of equal size, no device is promised twice.
TEST(GpusOfARank, MemoryIsNeverPromisedTwice) {
  for (int per_rank = 1; per_rank <= 4; ++per_rank) {
    for (int ranks = 1; ranks <= 16; ++ranks) {
      const int count = per_rank * ranks;
      for (const bool granted : {false, true}) {
        EXPECT_EQ(share_of_gpus(place(ranks - 1, ranks), per_rank, {count, granted, 0}), (DeviceShare{0, per_rank, 1}));
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(share_of_gpus(place(rank, ranks), count, {count, granted, 0}),
                    (DeviceShare{rank * per_rank, per_rank, 1}));
        }
      }
    }
  }
}

class DriverList : public testing::Test {
 protected:
  DriverList() : folder_(std::filesystem::path(testing::TempDir()) / "driver_list") {
    std::filesystem::remove_all(folder_);
    for (const char* bus : {"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"}) {
      std::filesystem::create_directories(folder_ / bus);
    }
  }
  ~DriverList() override { std::filesystem::remove_all(folder_); }

  HostGpus look(const Environment& environment, const std::optional<LocalRank>& place = std::nullopt) const {
    return gpus_of_host(lookup(environment), place, folder_.string());
  }

  std::filesystem::path folder_;
};

TEST_F(DriverList, CountsTheMachine) {
  EXPECT_EQ(look({}), (HostGpus{.count = 3}));
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(look({}), HostGpus{});
}

TEST_F(DriverList, GivesWayToWhatSlurmGranted) {
  EXPECT_EQ(look({{"SLURM_GPUS_ON_NODE", "2"}}), (HostGpus{.count = 2, .granted = true}));
  EXPECT_EQ(look({{"SLURM_GPUS_ON_NODE", "many"}}), (HostGpus{.count = 3}));
}

TEST_F(DriverList, PromisesCountForRanksThatSlurmStarted) {
  for (const char* const promise : {"2", "a100:2", "gpu:a100:2"}) {
    const Environment environment = {{"SLURM_GPUS_PER_TASK", promise}};
    EXPECT_EQ(look(environment, place(0, 4, "Slurm")), (HostGpus{.count = 3, .per_rank = 2}));
    EXPECT_EQ(look(environment, place(0, 4, "Open MPI")), (HostGpus{.count = 3}));
    EXPECT_EQ(look(environment), (HostGpus{.count = 3}));
  }
  EXPECT_EQ(look({{"SLURM_GPUS_PER_TASK", "x"}}, place(0, 4, "Slurm")), (HostGpus{.count = 3}));
}

TEST(MemoryOfARank, OneProcessTakesMostOfWhatIsFree) {
  EXPECT_EQ(memory_to_take(1000, 1000, 1), 800u);
  EXPECT_EQ(memory_to_take(1000, 500, 1), 400u);
  EXPECT_EQ(memory_to_take(1000, 0, 1), 0u);
}

TEST(MemoryOfARank, SharersTakePartsOfTheWhole) {
  // The part is the same whether the others have opened the device or not.
  EXPECT_EQ(memory_to_take(1000, 1000, 4), 200u);
  EXPECT_EQ(memory_to_take(1000, 400, 4), 200u);
  // Another program uses memory of the device.
  EXPECT_EQ(memory_to_take(1000, 100, 4), 80u);
  // If they open the device one after the other, all get their part.
  for (int sharers = 1; sharers <= 16; ++sharers) {
    std::size_t free = std::size_t{80} << 30;
    for (int rank = 0; rank < sharers; ++rank) {
      const std::size_t taken = memory_to_take(std::size_t{80} << 30, free, sharers);
      EXPECT_GE(taken, (std::size_t{63} << 30) / static_cast<std::size_t>(sharers)) << rank << " of " << sharers;
      ASSERT_LE(taken, free);
      free -= taken;
    }
  }
}

TEST(ProcessorsOfARank, AreDividedUnlessBound) {
  EXPECT_EQ(processors_of_rank(64, 64, 1), 64);
  EXPECT_EQ(processors_of_rank(64, 64, 4), 16);
  EXPECT_EQ(processors_of_rank(16, 64, 4), 16);  // bound to its own
  EXPECT_EQ(processors_of_rank(32, 64, 4), 16);  // bound to a socket together with another rank
  EXPECT_EQ(processors_of_rank(1, 64, 4), 1);
  EXPECT_EQ(processors_of_rank(2, 2, 4), 1);
  EXPECT_EQ(processors_of_rank(0, 0, 1), 1);
}

}  // namespace host_share_test
}  // namespace tessera
