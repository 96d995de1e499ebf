// The NVIDIA GPUs of this machine as its kernel lists them, without CUDA: reading takes microseconds, loading CUDA some
// tenths of a second. Facts about the folders of the driver's kernel module, from its README ("The /proc Filesystem
// Interface").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct ListedGpu {
  std::string pci_bus_id;  ///< "0000:1b:00.0"
  std::string model;       ///< "NVIDIA H200"; empty: not told
  std::string uuid;        ///< "GPU-..."; empty: not told
  int device_minor = -1;   ///< of its device file, /dev/nvidia0; -1: not told
  bool operator==(const ListedGpu&) const = default;
};

/// Where the driver tells what it has.
inline constexpr const char* driver_folder = "/proc/driver/nvidia";

/// In the order of their PCI addresses; empty where the driver tells nothing.
std::vector<ListedGpu> list_gpus(const std::string& folder = driver_folder);

/// "580.159.04"; empty where it is not told.
std::string driver_version(const std::string& folder = driver_folder);

/// Those that a program sees, in the order in which it sees them. CUDA may number them otherwise where models differ.
/// @param visible value of CUDA_VISIBLE_DEVICES, null: not set: numbers or the beginnings of UUIDs; as CUDA does, the
///                list ends at the first entry that names no GPU
/// @return nothing if an entry means something else (a part of a GPU: MIG)
std::optional<std::vector<ListedGpu>> visible_gpus(const std::vector<ListedGpu>& all, const char* visible);

}  // namespace tessera
