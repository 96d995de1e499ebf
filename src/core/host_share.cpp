#include "core/host_share.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

#include "core/parse_integer.hpp"

namespace tessera {
namespace {

// Leaves room for the memory of the program's other libraries and for each rank's driver context.
constexpr double share_of_memory = 0.8;

/// A whole number in [least, most_ranks], nothing around it.
bool parse_count(std::string_view text, int least, int& value) { return parse_integer(text, least, most_ranks, value); }

/// Entry `node` of a list such as "2(x3),1", which stands for 2, 2, 2, 1. 0: there is no such entry, or it is malformed
int tasks_on_node(std::string_view list, int node) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    int repeats = 1;
    if (const std::size_t open = entry.find("(x"); open != std::string_view::npos) {
      if (!entry.ends_with(')')) return 0;
      if (!parse_count(entry.substr(open + 2, entry.size() - open - 3), 1, repeats)) return 0;
      entry = entry.substr(0, open);
    }
    int tasks = 0;
    if (!parse_count(entry, 1, tasks)) return 0;
    if (node < repeats) return tasks;
    node -= repeats;
  }
  return 0;
}

struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
};

constexpr Launcher launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"Hydra", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},  // MPICH and Intel MPI
    {"PALS", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
    {"PMI", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
};
constexpr const char* slurm = "Slurm";

std::optional<LocalRank> place_in_step(const EnvironmentLookup& value_of) {
  // Not SLURM_TASKS_PER_NODE: a batch script has that as well, and a process that the script starts directly is no
  // rank.
  const char* const tasks = value_of("SLURM_STEP_TASKS_PER_NODE");
  const char* const node = value_of("SLURM_NODEID");
  const char* const rank = value_of("SLURM_LOCALID");
  LocalRank place{.rank = 0, .ranks = 1, .launcher = slurm};
  int node_number = 0;
  if (tasks == nullptr || node == nullptr || rank == nullptr) return std::nullopt;
  if (!parse_count(node, 0, node_number) || !parse_count(rank, 0, place.rank)) return std::nullopt;
  place.ranks = tasks_on_node(tasks, node_number);
  if (place.rank >= place.ranks) return std::nullopt;
  return place;
}

}  // namespace

std::optional<LocalRank> find_local_rank(const EnvironmentLookup& value_of) {
  for (const Launcher& launcher : launchers) {
    const char* const rank = value_of(launcher.rank);
    const char* const ranks = value_of(launcher.ranks);
    if (rank == nullptr || ranks == nullptr) continue;
    LocalRank place{.rank = 0, .ranks = 1, .launcher = launcher.name};
    if (!parse_count(rank, 0, place.rank) || !parse_count(ranks, 1, place.ranks)) return std::nullopt;
    if (place.rank >= place.ranks) return std::nullopt;
    return place;
  }
  return place_in_step(value_of);
}

DeviceShare divide_devices(int rank, int ranks, int devices) {
  if (devices == 0) return {};
  const auto r = static_cast<std::int64_t>(rank);
  const auto R = static_cast<std::int64_t>(ranks);
  const auto G = static_cast<std::int64_t>(devices);
  const auto first = static_cast<int>(r * G / R);
  if (ranks <= devices) return {first, static_cast<int>((r + 1) * G / R) - first, 1};
  // Ranks with floor(r*G/R) = first are those from ceil(first*R/G) up to but not including ceil((first+1)*R/G).
  const auto first_of = [&](std::int64_t device) { return (device * R + G - 1) / G; };
  return {first, 1, static_cast<int>(first_of(first + 1) - first_of(first))};
}

HostGpus gpus_of_host(const EnvironmentLookup& value_of, const std::optional<LocalRank>& place,
                      const std::string& driver_list) {
  HostGpus gpus;
  // srun promises this to the ranks that it starts itself; a batch script that calls mpirun has this variable, too.
  if (const char* const promised = value_of("SLURM_GPUS_PER_TASK");
      promised != nullptr && place && place->launcher == slurm) {
    std::string_view text = promised;  // "2" or, with a type, "a100:2"
    if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) text.remove_prefix(colon + 1);
    if (!parse_count(text, 1, gpus.per_rank)) gpus.per_rank = 0;
  }
  if (const char* const granted = value_of("SLURM_GPUS_ON_NODE"); granted != nullptr) {
    gpus.granted = parse_count(granted, 1, gpus.count);
    if (gpus.granted) return gpus;
  }
  std::error_code error;
  const std::filesystem::directory_iterator list(driver_list, error);
  if (!error) gpus.count = static_cast<int>(std::distance(begin(list), end(list)));
  return gpus;
}

DeviceShare share_of_gpus(const LocalRank& place, int visible, const HostGpus& host) {
  if (visible > 0 && visible == host.per_rank) return {0, visible, 1};
  const std::int64_t all = std::int64_t{visible} * place.ranks;
  if (visible > 0 && visible < host.count && (host.granted || visible == 1 || all == host.count)) {
    return {0, visible, static_cast<int>((all + host.count - 1) / host.count)};
  }
  return divide_devices(place.rank, place.ranks, visible);
}

std::size_t memory_to_take(std::size_t total_bytes, std::size_t free_bytes, int sharers) {
  const auto of_free = static_cast<std::size_t>(share_of_memory * static_cast<double>(free_bytes));
  if (sharers <= 1) return of_free;
  return std::min(of_free, static_cast<std::size_t>(share_of_memory * static_cast<double>(total_bytes) / sharers));
}

int processors_of_rank(int allowed, int online, int ranks) { return std::max(1, std::min(allowed, online / ranks)); }

int available_processors(int ranks) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return processors_of_rank(allowed, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), ranks);
}

}  // namespace tessera
