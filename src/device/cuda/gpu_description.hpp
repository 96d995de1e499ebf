// The description of a GPU without creating a context: data of its driver and of the kernel, and its architecture's
// profile.
#pragma once

#include "device/device.hpp"

namespace tessera::device::cuda {

/// Number of GPUs, at least 1. @throws NotAvailable
int device_count();

/// The GPU of the thread's current context, or of the context that CUDA would create for it. @throws NotAvailable
int current_device();

/// Describes GPU `ordinal`. @throws NotAvailable
DeviceInfo describe_device(int ordinal);

}  // namespace tessera::device::cuda
