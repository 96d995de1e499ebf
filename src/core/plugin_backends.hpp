// The kinds of devices that have a plugin, by the names that settings and reports use. Everything else asks this table.
#pragma once

#include <string_view>

namespace tessera {

struct PluginBackend {
  const char* name;     ///< "cuda", as in TESSERA_DEVICES and DeviceInfo::backend
  const char* title;    ///< for people
  const char* library;  ///< the plugin's file, which lies beside libtessera.so
  const char* entry;    ///< its function, a kernels::BackendEntry
};

/// The first one is used where nothing else is said.
inline constexpr PluginBackend plugin_backends[] = {
    {"cuda", "CUDA", "libtessera_cuda.so", "tessera_cuda_backend"},
};

/// @return nullptr if no backend has this name
constexpr const PluginBackend* plugin_backend(std::string_view name) {
  for (const PluginBackend& backend : plugin_backends) {
    if (name == backend.name) return &backend;
  }
  return nullptr;
}

}  // namespace tessera
