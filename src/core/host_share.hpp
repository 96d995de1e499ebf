// The division of a host among several processes of one job (MPI ranks): devices, their memory, processors. Arithmetic
// on numbers and strings; only gpus_of_host() and available_processors() look at the machine. The ranks do not
// communicate here. Each computes its own part from its place among them, so all must follow the same rule.
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// More than any host has, and small enough that products of two such numbers stay within 64 bits.
inline constexpr int most_ranks = 1 << 20;

/// Returns the value of an environment variable, or nullptr. It is environment_variable() except in tests.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// A process's place among those of its job on this host. 0 <= rank < ranks
struct LocalRank {
  int rank = 0;
  int ranks = 1;
  std::string launcher;  ///< the launcher that said so: "Open MPI", "Slurm", ...
  bool operator==(const LocalRank&) const = default;
};

/// The place that the launcher's variables give: Open MPI, MVAPICH, Hydra (MPICH, Intel MPI), PALS, PMI, Slurm, in this
/// order. Slurm comes last because it also starts the daemons of the others, whose ranks then have both sets. The first
/// launcher whose variables are all set decides. Returns nothing if its numbers are not consistent. Sources:
/// docs.open-mpi.org "Environment variables set for MPI applications"; MVAPICH2 user guide; srun(1).
std::optional<LocalRank> find_local_rank(const EnvironmentLookup& value_of);

/// Devices [first, first + count) of those that a process sees, and the number of processes that use each, itself
/// included.
struct DeviceShare {
  int first = 0;
  int count = 0;
  int sharers = 1;
  bool operator==(const DeviceShare&) const = default;

  std::vector<int> ordinals() const {
    std::vector<int> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
  }
};

/// Divides `devices` among `ranks` that all see them. With as many devices as ranks or more, rank r takes floor(r*G/R)
/// up to but not including floor((r+1)*G/R). With fewer it takes one device, floor(r*G/R), which it shares with some of
/// its neighbours.
/// @pre 0 <= rank < ranks, devices >= 0
DeviceShare divide_devices(int rank, int ranks, int devices);

/// The GPUs of the host, as far as they are known.
struct HostGpus {
  int count = 0;         ///< of the machine, or of this job's part of it; 0: unknown
  bool granted = false;  ///< `count` is the job's part: a rank that sees fewer was given its own
  int per_rank = 0;      ///< the number that the launcher promised each rank; 0: no promise
  bool operator==(const HostGpus&) const = default;
};

/// From Slurm's variables, else from the driver's list of GPUs. Neither way loads or calls the driver.
/// @param driver_list a folder with an entry for each GPU of the machine
HostGpus gpus_of_host(const EnvironmentLookup& value_of, const std::optional<LocalRank>& place,
                      const std::string& driver_list = "/proc/driver/nvidia/gpus");

/// A rank's share of the GPUs that it sees. The launcher or a wrapper script may have shown each rank its own GPUs
/// already, and a rank cannot know what the others see. It takes all visible GPUs as its own in two cases:
/// (a) their number is the one that the launcher promised each rank;
/// (b) they are fewer than the host has (or than the job was granted), and it is one GPU, or ranks times GPUs is the
/// host's number, or the grant is known. Otherwise it assumes that all ranks see the same GPUs, and divides them.
DeviceShare share_of_gpus(const LocalRank& place, int visible, const HostGpus& host);

/// Bytes of a device's memory to take: most of the free memory. If `sharers` processes share the device, at most one's
/// part of the same fraction of all its memory. Free memory cannot be divided: it changes while the others open the
/// device.
std::size_t memory_to_take(std::size_t total_bytes, std::size_t free_bytes, int sharers);

/// The processors that a rank may count on, of those it may run on. Ranks that are not bound to processors compete for
/// all of them. At least 1.
int processors_of_rank(int allowed, int online, int ranks);

/// The same for this process, from the system.
int available_processors(int ranks);

}  // namespace tessera
