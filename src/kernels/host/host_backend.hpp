// Host devices with their kernels.
#pragma once

#include <memory>

#include "core/config.hpp"
#include "kernels/backend.hpp"
#include "kernels/host/cpu_blas.hpp"

namespace tessera::kernels {

/// `count` host devices with the settings in `config`; their tiles are computed by `blas` (nullptr: by the readable reference).
/// @param profile of all of them, in which what the settings say is replaced
std::unique_ptr<Backend> make_host_backend(const Config& config, int count, std::shared_ptr<const CpuBlas> blas,
                                           const device::DeviceProfile& profile = device::host_profile());

}  // namespace tessera::kernels
