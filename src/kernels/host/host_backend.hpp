// Host devices with their kernels.
#pragma once

#include <memory>

#include "core/config.hpp"
#include "kernels/backend.hpp"
#include "kernels/host/cpu_blas.hpp"

namespace tessera::kernels {

/// Creates `count` host devices with the settings in `config`. `blas` computes their tiles (nullptr: the readable
/// reference).
/// @param profile the common profile, in which the settings replace some values
std::unique_ptr<Backend> make_host_backend(const Config& config, int count, std::shared_ptr<const CpuBlas> blas,
                                           const device::DeviceProfile& profile = device::host_profile());

}  // namespace tessera::kernels
