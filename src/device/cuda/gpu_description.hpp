// What is known of a GPU without making a context: what its driver and the kernel say of it, and the profile of its architecture.
#pragma once

#include "device/device.hpp"

namespace tessera::device::cuda {

/// Of GPU `ordinal`. @throws NotAvailable
DeviceInfo describe_device(int ordinal);

}  // namespace tessera::device::cuda
