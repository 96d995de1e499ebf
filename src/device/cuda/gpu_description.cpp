#include "device/cuda/gpu_description.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string>

#include "core/error.hpp"
#include "device/cuda/cuda_context.hpp"

namespace tessera::device::cuda {
namespace {

/// Pages of 4 KiB: 20 GB/s to lock, 55 GB/s to unlock, measured on a host with H200.
constexpr double page_lock_bytes_per_s = 1 / (1 / 20e9 + 1 / 55e9);
/// A context, the kernels of cuBLAS, and the slab; 0.5 to 3 s were seen for one to eight GPUs, opened one after the
/// other.
constexpr double start_up_s = 0.5;

/// Double-precision matrix rate: multiprocessors * clock * single-precision lanes * 2 / (single : double ratio); the
/// tensor cores of compute capability 8.0 and 9.0 double it. A tenth is lost in practice. H200: 60e12, A100: 18e12.
double double_precision_rate(int ordinal, int major, int minor) {
  const bool sixty_four_lanes = major == 7 || (major == 6 && minor == 0) || (major == 8 && minor == 0);
  const bool tensor_cores = (major == 8 || major == 9) && minor == 0;
  const double lanes = sixty_four_lanes ? 64 : 128;
  const double ratio = std::max(attribute(ordinal, cudaDevAttrSingleToDoublePrecisionPerfRatio), 1);
  const double clock_hz = 1e3 * attribute(ordinal, cudaDevAttrClockRate);
  return 0.9 * attribute(ordinal, cudaDevAttrMultiProcessorCount) * clock_hz * 2 * lanes / ratio *
         (tensor_cores ? 2 : 1);
}

/// From what the kernel says of the PCIe device ("32.0 GT/s PCIe", "16"); an eighth of it is protocol. 0: unknown.
double host_link_rate(const std::string& pci_bus_id) {
  const std::string folder = "/sys/bus/pci/devices/" + pci_bus_id + "/";
  double transfers_per_s = 0;
  double lanes = 0;
  std::ifstream(folder + "max_link_speed") >> transfers_per_s;
  std::ifstream(folder + "max_link_width") >> lanes;
  if (!(transfers_per_s > 0 && transfers_per_s < 1000) || !(lanes > 0 && lanes <= 32)) return 0;
  return 0.85 * transfers_per_s * 1e9 / 8 * lanes;
}

}  // namespace

DeviceInfo describe_device(int ordinal) {
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal); error != cudaSuccess) {
    forget_error();
    throw NotAvailable(describe_error(ordinal, "reading its properties", error));
  }
  DeviceInfo info;
  info.backend = "cuda";
  info.ordinal = ordinal;
  info.name = properties.name;
  info.memory_bytes = properties.totalGlobalMem;
  char bus_id[32] = {};
  if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, ordinal) == cudaSuccess) {
    info.pci_bus_id = bus_id;
    // As the kernel and hwloc spell it.
    for (char& c : info.pci_bus_id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  } else {
    forget_error();
  }
  info.flops_per_s = double_precision_rate(ordinal, properties.major, properties.minor);
  // Measured on H200: 32 GB/s for columns up to 16 KiB beside kernels, 47 GB/s from 32 KiB on (docs/adr/0003).
  info.segment_bytes = 32768;
  info.share_bytes = index_t{40} << 20;  // three quarters of a millisecond on the link
  info.page_lock_bytes_per_s = page_lock_bytes_per_s;
  info.start_up_s = start_up_s;
  if (!info.pci_bus_id.empty()) info.link_bytes_per_s = host_link_rate(info.pci_bus_id);
  return info;
}

}  // namespace tessera::device::cuda
