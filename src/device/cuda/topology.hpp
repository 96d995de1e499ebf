// Where the threads of a GPU should run (hwloc). Part of the plugin, so that only programs whose calls reach a GPU load
// hwloc. No header of CUDA is needed, so the tests compile it without CUDA.
#pragma once

#include <string>

namespace tessera::device::cuda {

/// Loads the machine's topology unless that has been done, which takes ten milliseconds or more. A thread with spare
/// time calls it in advance; otherwise bind_near() loads it. Thread-safe.
void load_topology() noexcept;

/// Binds the calling thread to the processors near the PCI device, as far as the process may use them. Does nothing if
/// the device's place is unknown (virtual machines hide it). @return whether it bound the thread
bool bind_near(const std::string& pci_bus_id) noexcept;

}  // namespace tessera::device::cuda
