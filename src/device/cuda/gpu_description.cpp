#include "device/cuda/gpu_description.hpp"

#include <cuda_runtime_api.h>

#include <cctype>
#include <fstream>
#include <string>

#include "core/error.hpp"
#include "device/cuda/cuda_context.hpp"

namespace tessera::device::cuda {
namespace {

/// Transfers per second from the kernel's description of the PCIe device ("32.0 GT/s PCIe", "16"); 0: unknown.
double signalling_rate(const std::string& pci_bus_id) {
  const std::string folder = "/sys/bus/pci/devices/" + pci_bus_id + "/";
  double transfers_per_s = 0;
  double lanes = 0;
  std::ifstream(folder + "max_link_speed") >> transfers_per_s;
  std::ifstream(folder + "max_link_width") >> lanes;
  if (!(transfers_per_s > 0 && transfers_per_s < 1000) || !(lanes > 0 && lanes <= 32)) return 0;
  return transfers_per_s * 1e9 / 8 * lanes;
}

/// Reports why no GPU is available.
[[noreturn]] void throw_not_available(cudaError_t error) {
  forget_error();
  switch (error) {
    case cudaSuccess:
    case cudaErrorNoDevice:
      throw NotAvailable("no CUDA device");
    case cudaErrorInsufficientDriver:
      throw NotAvailable("no CUDA driver, or one older than the CUDA runtime of Tessera (" +
                         std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10) +
                         ")");
    case cudaErrorInitializationError:
      throw NotAvailable("CUDA cannot be initialised (in a process forked from one that uses CUDA, it never can)");
    default:
      break;
  }
  throw NotAvailable(std::string("CUDA: ") + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

}  // namespace

int device_count() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count < 1) throw_not_available(error);
  return count;
}

int current_device() {
  int ordinal = 0;
  static_cast<void>(device_count());
  if (const cudaError_t error = cudaGetDevice(&ordinal); error != cudaSuccess) throw_not_available(error);
  return ordinal;
}

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
    // Lower case, as the kernel and hwloc spell it.
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
