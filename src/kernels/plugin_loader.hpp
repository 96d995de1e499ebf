// Opens the CUDA plugin at run time, so that libtessera.so itself needs no CUDA.
#pragma once

#include <memory>
#include <string>

#include "core/plugin_backends.hpp"
#include "kernels/backend.hpp"

namespace tessera::kernels {

/// @param path file of the plugin; empty: libtessera_cuda.so beside the library (or program) that this code is part of,
///             else wherever the loader finds that name
/// @throws NotAvailable with the reason: no such file, not loadable, of another build, no driver, no device
/// The plugin is never closed, since drivers do not survive it. Call on a thread of the application, never on a worker:
/// the loader's lock may be held by the caller of a BLAS function.
std::unique_ptr<Backend> open_plugin(const std::string& path, const PluginBackend& which = plugin_backends[0]);

}  // namespace tessera::kernels
