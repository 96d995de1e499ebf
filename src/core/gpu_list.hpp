// The NVIDIA GPUs of this machine as its kernel lists them, without CUDA. Reading the list takes microseconds, loading
// CUDA some tenths of a second. Source: the README of the driver's kernel module ("The /proc Filesystem Interface").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct ListedGpu {
  std::string pci_bus_id;  ///< "0000:1b:00.0"
  std::string model;       ///< "NVIDIA H200"; empty: unknown
  std::string uuid;        ///< "GPU-..."; empty: unknown
  int device_minor = -1;   ///< of its device file, /dev/nvidia0; -1: unknown
  bool operator==(const ListedGpu&) const = default;
};

/// The folder in which the driver lists its GPUs.
inline constexpr const char* driver_folder = "/proc/driver/nvidia";

/// In the order of their PCI addresses; empty if the driver lists nothing.
std::vector<ListedGpu> list_gpus(const std::string& folder = driver_folder);

/// "580.159.04"; empty if unknown.
std::string driver_version(const std::string& folder = driver_folder);

/// The GPUs that a program sees, in its order. CUDA may number them in another order if the models differ.
/// @param visible value of CUDA_VISIBLE_DEVICES, null: not set: numbers or the beginnings of UUIDs; as CUDA does, the
///                list ends at the first entry that names no GPU
/// @return nothing if an entry means something else (a part of a GPU: MIG)
std::optional<std::vector<ListedGpu>> visible_gpus(const std::vector<ListedGpu>& all, const char* visible);

}  // namespace tessera
