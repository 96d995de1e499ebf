// What is known of a GPU without making a context: what its driver and the kernel say of it, and the profile of its architecture.
#pragma once

#include "device/device.hpp"

namespace tessera::device::cuda {

/// Number of GPUs, at least 1. @throws NotAvailable
int device_count();

/// The GPU of the thread's current context, or the one that it would get one on. @throws NotAvailable
int current_device();

/// Of GPU `ordinal`. @throws NotAvailable
DeviceInfo describe_device(int ordinal);

}  // namespace tessera::device::cuda
