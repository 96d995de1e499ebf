#include "device/cuda/gpu_description.hpp"

#include <cuda_runtime_api.h>

#include <cctype>
#include <fstream>
#include <string>

#include "core/error.hpp"
#include "device/cuda/cuda_context.hpp"

namespace tessera::device::cuda {
namespace {

/// From what the kernel says of the PCIe device ("32.0 GT/s PCIe", "16"); 0: unknown.
double signalling_rate(const std::string& pci_bus_id) {
  const std::string folder = "/sys/bus/pci/devices/" + pci_bus_id + "/";
  double transfers_per_s = 0;
  double lanes = 0;
  std::ifstream(folder + "max_link_speed") >> transfers_per_s;
  std::ifstream(folder + "max_link_width") >> lanes;
  if (!(transfers_per_s > 0 && transfers_per_s < 1000) || !(lanes > 0 && lanes <= 32)) return 0;
  return transfers_per_s * 1e9 / 8 * lanes;
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
  info.profile =
      gpu_profile(properties.major, properties.minor, attribute(ordinal, cudaDevAttrSingleToDoublePrecisionPerfRatio));
  info.flops_per_s = matrix_rates(info.profile, attribute(ordinal, cudaDevAttrMultiProcessorCount),
                                  1e3 * attribute(ordinal, cudaDevAttrClockRate));
  if (!info.pci_bus_id.empty()) info.link_bytes_per_s = info.profile.link_part * signalling_rate(info.pci_bus_id);
  return info;
}

}  // namespace tessera::device::cuda
