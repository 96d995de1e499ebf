// Where the threads of a GPU should run (hwloc). Part of the plugin, so that only programs whose calls reach a GPU load
// hwloc. No header of CUDA is needed: the tests compile it without.
#pragma once

#include <string>

namespace tessera::device::cuda {

/// Finds out how the machine is built, which takes ten milliseconds and more, unless that has been done. For who has time meanwhile:
/// bind_near() does it where it must. Thread-safe.
void load_topology() noexcept;

/// Binds the calling thread to the processors near the PCI device, as far as the process may use them. Does nothing
/// where the device's place is unknown (virtual machines hide it). @return whether it bound
bool bind_near(const std::string& pci_bus_id) noexcept;

}  // namespace tessera::device::cuda
