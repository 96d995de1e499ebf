// The identity of this build. Libraries that share C++ types (libtessera.so and the CUDA plugin) must be of the same
// build. For libtessera.so and the drop-in libraries, the loader checks this (cmake/tessera.map.in).
#pragma once

#include <cstdint>

namespace tessera {

/// Half of a hash of the version, the compiler and all sources; defined by cmake/build_identity.cmake.
extern const std::uint64_t build_identity;

}  // namespace tessera
