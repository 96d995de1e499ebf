// Several processes of one job on a host (MPI ranks), and what each takes of it: devices, their memory, processors.
// Arithmetic on numbers and strings; only gpus_of_host() and available_processors() look at the machine. Nothing here
// talks to the other ranks: each computes its own part from its place among them, so all must follow the same rule.
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

/// The value of an environment variable, or nullptr: environment_variable(), but for tests.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// A process's place among those of its job on this host. 0 <= rank < ranks
struct LocalRank {
  int rank = 0;
  int ranks = 1;
  std::string launcher;  ///< who said so: "Open MPI", "Slurm", ...
  bool operator==(const LocalRank&) const = default;
};

/// What the launcher of this process says: Open MPI, MVAPICH, Hydra (MPICH, Intel MPI), PALS, PMI, Slurm, in this
/// order: Slurm comes last because it also starts the daemons of the others, whose ranks then have both. The first of
/// them whose variables are all there decides; none if they are not numbers that fit together. Sources:
/// docs.open-mpi.org "Environment variables set for MPI applications"; MVAPICH2 user guide; srun(1).
std::optional<LocalRank> find_local_rank(const EnvironmentLookup& value_of);

/// Devices [first, first + count) of those that a process sees, and how many processes use each of them, itself
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
/// up to but not including floor((r+1)*G/R); with fewer, one device, floor(r*G/R), which some of its neighbours take,
/// too.
/// @pre 0 <= rank < ranks, devices >= 0
DeviceShare divide_devices(int rank, int ranks, int devices);

/// GPUs of the host, as far as something tells.
struct HostGpus {
  int count = 0;         ///< of the machine, or of what this job may use of it; 0: unknown
  bool granted = false;  ///< `count` is what the job may use: a rank that sees fewer was given its own
  int per_rank = 0;      ///< how many the launcher promised each rank; 0: it did not
  bool operator==(const HostGpus&) const = default;
};

/// From Slurm's variables, else from the driver's list of GPUs. Neither loads nor asks the driver.
/// @param driver_list a folder with an entry for each GPU of the machine
HostGpus gpus_of_host(const EnvironmentLookup& value_of, const std::optional<LocalRank>& place,
                      const std::string& driver_list = "/proc/driver/nvidia/gpus");

/// A rank's share of the GPUs that it sees, where the launcher or a wrapper script may have shown each rank its own
/// already. A rank cannot know what others see. It takes what it sees for its own if that is what the launcher promised
/// each rank; or it is less than the host has (or the job was granted) and is one GPU, or would make up the host if
/// each rank had as many, or the grant is known. Otherwise all are taken to see the same, which is divided.
DeviceShare share_of_gpus(const LocalRank& place, int visible, const HostGpus& host);

/// Bytes of a device's memory to take: most of what is free, but for `sharers` processes not more than each one's part
/// of the same share of all of it. What is free cannot be divided: it changes while the others open the device.
std::size_t memory_to_take(std::size_t total_bytes, std::size_t free_bytes, int sharers);

/// Processors that a rank may count on, of those it may run on: ranks that are not bound run on all of them, and get in
/// each other's way. At least 1.
int processors_of_rank(int allowed, int online, int ranks);

/// The same of this process, as the system says.
int available_processors(int ranks);

}  // namespace tessera
