// The user's settings, parsed once. `Config::from_environment()` reads TESSERA_*; `Config::from_settings` reads the
// same names from a string, on top of the environment. A wrong value is refused with one line on standard error
// (environment) or an InvalidArgument (settings), and the default is used.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/host_share.hpp"
#include "core/offload_rules.hpp"
#include "core/plugin_backends.hpp"
#include "core/rates_by_type.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// plugin: devices of Config::backend.
enum class DeviceChoice { automatic, plugin, host, none };
/// Whether this process is one of several that share the host: as its launcher says, no, or as the setting says.
enum class Share { automatic, off, given };

/// Settings of one host device (TESSERA_HOST_DEVICE). Rates are in bytes or flops per second; a rate of 0 sets no
/// limit.
/// The operations of a host device that an injected failure counts.
enum class FailingOperation : std::uint8_t { any, up, down, peer, to_peer, kernel };

struct HostDeviceSettings {
  std::size_t memory_bytes = std::size_t{256} << 20;
  double link_bytes_per_s = 0;  ///< host link, each direction
  double peer_bytes_per_s = 0;  ///< peer link, into this device and out of it
  RatesByType flops_per_s;  ///< modelled kernel time = flops / this, on one engine shared by the four compute streams
  double delay_s = 0;       ///< added to every operation (latency)
  double start_s = 0;       ///< opening it takes this long
  std::size_t segment_bytes = 0;  ///< in its profile, with pages of twice as much; copies ignore it
  std::size_t share_bytes = 0;    ///< in its profile
  bool peers = true;              ///< false: no copies between it and other devices, as for GPUs without peer access
  bool compute = true;  ///< false: kernels only take modelled time and leave their output untouched (scheduling tests)
  std::int64_t fail_after_ops =
      -1;  ///< injected failure: the operation with this number (from 0) and all later ones fail; -1: never
  FailingOperation failing_operation = FailingOperation::any;  ///< the operations that fail_after_ops counts
  std::int64_t refused_opens = 0;  ///< injected failure: this many attempts of the process to open it fail
  std::int64_t refused_op = -1;    ///< the submission of this number (copies and kernels, from 0) is refused; -1: none
};

/// Which matrices stay on devices between calls.
enum class Resident : std::uint8_t {
  off,        ///< none
  named,      ///< those that the program names (tessera/matrix.h)
  automatic,  ///< where the kernel tells what is written: these, and those that are used again
  verified    ///< the same, and each copy is compared with host memory before it is used: for tests
};

/// When the memory of a device is taken.
enum class MemoryMode : std::uint8_t {
  grow,  ///< as much as the largest call so far needed; freed after some seconds without a call
  whole  ///< the whole limit, from the opening of the device until the process ends
};

/// Whether the CPU computes tiles of jobs that devices compute.
enum class WarmUp : std::uint8_t {
  off,
  first_call,     ///< at the first call
  known_programs  ///< when the library is loaded, if the same program used devices the last time
};

enum class CpuWorkerUse : std::uint8_t {
  automatic,  ///< if this makes the job end notably sooner
  always,
  never
};

/// Where the old values of C's tiles are kept while the new ones are written back.
enum class OldValuesPlace : std::uint8_t {
  in_place,  ///< results are written in whole slices if the other slices can still be computed then; else as `host`
  host,
  peers,   ///< in the memory of another device, if one is reachable and has room; else on the host
  nowhere  ///< not at all: if a device is lost meanwhile, the call fails
};

struct Config {
  DeviceChoice devices = DeviceChoice::automatic;
  const PluginBackend* backend = &plugin_backends[0];  ///< whose devices are used, unless they are host devices
  std::vector<int> ordinals;                           ///< of these; empty: all
  int host_devices = 0;                                ///< number of host devices when devices == host
  std::vector<HostDeviceSettings> host_device = {
      HostDeviceSettings{}};                       ///< one for all, or one per device (the last repeats)
  std::optional<std::size_t> device_memory_bytes;  ///< at most, per device; default: a share of the free memory
  MemoryMode memory_mode = MemoryMode::grow;
  Resident resident = Resident::off;
  std::optional<std::size_t> resident_bytes;  ///< of a device, for what stays there; default: a third
  bool watches_any_memory = false;            ///< for tests: what stays may lie in memory that is not the pool's
  OldValuesPlace keep_old_values = OldValuesPlace::in_place;
  std::optional<int> copy_threads;  ///< of each GPU, for pageable memory; 0: page-lock it; default: by processors
  std::optional<index_t> tile;      ///< tile size in elements; default: chosen per problem
  OffloadRules offload;
  CpuWorkerUse cpu_worker = CpuWorkerUse::automatic;
  Share share = Share::automatic;
  std::optional<LocalRank> local_rank;  ///< where `share` leads to; empty: this process has the host for itself
  std::string cpu_blas;                 ///< path of the CPU BLAS; empty: found
  std::string plugin_file;              ///< path of the plugin; empty: beside libtessera.so
  std::string calibration;              ///< file with measured rates, or "off"; empty: in the user's cache
  WarmUp warm_up = WarmUp::off;         ///< when devices are opened in the background, whatever the calls are
  bool verbose = false;
  std::string stats_file;              ///< empty: none
  std::string trace_file;              ///< empty: none
  std::optional<std::string> summary;  ///< file that a summary is appended to at exit; empty: standard error

  /// Settings of host device `index`.
  const HostDeviceSettings& host_device_settings(int index) const;

  /// Ranks on this host that divide it, this process included; 1 if it does not share it.
  int local_ranks() const { return local_rank ? local_rank->ranks : 1; }

  /// The number of threads that copy pageable memory to and from each of `devices` GPUs, see DeviceInfo.
  /// @param processors that this process may count on
  /// @param most of a device: more threads gain nothing
  /// @param fewest of a device: with fewer than this, none is better
  int copy_threads_of(int devices, int processors, int most, int fewest) const;

  /// The devices that this process uses of the `visible` ones of its backend: its rank's part. All of them if
  /// `cuda_ordinals` names devices (the caller filters them) or if the host is not shared.
  DeviceShare device_share(int visible) const;

  /// Whether a name in TESSERA_OFFLOAD is that of a routine; nullptr: any name is taken.
  using IsRoutine = bool (*)(std::string_view name);

  static Config from_environment(IsRoutine is_routine = nullptr);
  /// `settings`: NAME=value or NAME="value" pairs, as tessera_create_with() takes them; they win over the environment.
  /// @throws InvalidArgument naming the first wrong name or value
  static Config from_settings(std::string_view settings, IsRoutine is_routine = nullptr);
};

/// "64MiB", "2GB", "1.5GiB", "4096": decimal and binary suffixes. @throws InvalidArgument
std::size_t parse_bytes(std::string_view text);

}  // namespace tessera
