// Where threads should run (hwloc).
#pragma once

#include <string>

namespace tessera::runtime {

/// Binds the calling thread to the processors near the PCI device, as far as the process may use them. Does nothing where the
/// device's place is unknown (host devices, virtual machines that hide it). @return whether it bound
bool bind_near(const std::string& pci_bus_id) noexcept;

}  // namespace tessera::runtime
