#include "device/cuda/topology.hpp"

#include <hwloc.h>

namespace tessera::device::cuda {
namespace {

// Loading the topology takes ten milliseconds or more, so it happens once per process. It is never destroyed, so that
// exiting does not race with workers.
hwloc_topology_t topology() noexcept {
  static const hwloc_topology_t loaded = [] {
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0) return hwloc_topology_t{};
    hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    // These components would start drivers of other vendors and other programming models in the program; the PCI bus
    // suffices. An hwloc without such a component rejects its name, which has the same effect.
    for (const char* const driver : {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"}) {
      hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, driver);
    }
    if (hwloc_topology_load(made) != 0) {
      hwloc_topology_destroy(made);
      return hwloc_topology_t{};
    }
    return made;
  }();
  return loaded;
}

}  // namespace

void load_topology() noexcept { static_cast<void>(topology()); }

bool bind_near(const std::string& pci_bus_id) noexcept {
  if (pci_bus_id.empty()) return false;
  const hwloc_topology_t machine = topology();
  if (machine == nullptr) return false;
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(machine, pci_bus_id.c_str());
  if (device == nullptr) return false;
  const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(machine, device);
  if (place == nullptr || place->cpuset == nullptr) return false;

  // Stay within the processors that the program was given (taskset, MPI binding).
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (allowed == nullptr) return false;
  bool bound = false;
  if (hwloc_get_cpubind(machine, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_bitmap_and(allowed, allowed, place->cpuset);
    bound = hwloc_bitmap_iszero(allowed) == 0 && hwloc_set_cpubind(machine, allowed, HWLOC_CPUBIND_THREAD) == 0;
  }
  hwloc_bitmap_free(allowed);
  return bound;
}

}  // namespace tessera::device::cuda
