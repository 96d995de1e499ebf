// What is known of a GPU without making a context: what its driver and the kernel say of it.
#pragma once

#include "device/device.hpp"

namespace tessera::device::cuda {

/// Of GPU `ordinal`. @throws NotAvailable
DeviceInfo describe_device(int ordinal);

}  // namespace tessera::device::cuda
