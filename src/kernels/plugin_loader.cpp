#include "kernels/plugin_loader.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include "core/build_identity.hpp"
#include "core/error.hpp"
#include "core/loaded_objects.hpp"
#include "core/process.hpp"
#include "core/unwinder.hpp"

namespace tessera::kernels {
namespace {

std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "unknown reason";
}

/// The plugin beside the object that contains this function, if there is one, else its plain name. A plugin that lies
/// there but cannot be loaded is not silently replaced by another.
std::string default_path(const char* plugin) {
  if (const char* const self = file_of_object(reinterpret_cast<void*>(&default_path))) {
    const std::string file = self;
    const std::size_t slash = file.rfind('/');
    if (slash != std::string::npos) {
      std::string beside = file.substr(0, slash + 1) + plugin;
      if (access(beside.c_str(), F_OK) == 0) return beside;
    }
  }
  return plugin;
}

}  // namespace

std::unique_ptr<Backend> open_plugin(const std::string& path, const PluginBackend& which) {
  const std::string file = path.empty() ? default_path(which.library) : path;
  void* plugin = nullptr;
  {
    // A child of a fork during the load would find the loader's lock taken.
    const process::Pass loading(process::Work::opening);
    plugin = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (plugin == nullptr)
    throw NotAvailable(std::string("the ") + which.title + " plugin cannot be loaded: " + loader_error());
  start_unwinder();  // the plugin throws
  // From here on the plugin stays open also on failure: what it started (or its libraries did) may still run.
  const auto entry = reinterpret_cast<BackendEntry>(dlsym(plugin, which.entry));
  if (entry == nullptr) throw NotAvailable(file + " is no " + which.title + " plugin of Tessera: " + loader_error());
  std::unique_ptr<Backend> backend(entry(build_identity));
  if (!backend) throw NotAvailable(file + " belongs to another build of Tessera");
  return backend;
}

}  // namespace tessera::kernels
