// Opens a library of CUDA, which is not linked: a machine without it still has all other devices.
//
// In this order: the one that another package of the process has loaded; the folders of TESSERA_CUDA_LIBRARIES; and the
// loader's search, which begins with the folders that the plugin was installed with (cmake/python.cmake).
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/environment.hpp"
#include "core/error.hpp"

namespace tessera::kernels::cuda {

class CudaLibrary {
 public:
  /// Stays open until the process ends. @param name for messages @throws NotAvailable
  CudaLibrary(const char* name, const char* file_name) : file_name_(file_name), handle_(open(file_name)) {
    if (handle_ != nullptr) return;
    const char* const reason = dlerror();
    throw NotAvailable(std::string(name) + " cannot be loaded: " + (reason != nullptr ? reason : file_name));
  }

  /// @return nullptr if this version lacks it
  void* find(const char* function) const { return dlsym(handle_, function); }

  /// @throws NotAvailable
  template <class Function>
  void resolve(const char* function, Function& found) const {
    found = reinterpret_cast<Function>(find(function));
    if (found == nullptr) throw NotAvailable(std::string(file_name_) + " has no " + function);
  }

 private:
  static void* open(const char* file_name) {
    constexpr int mode = RTLD_NOW | RTLD_LOCAL;
    if (void* const loaded = dlopen(file_name, mode | RTLD_NOLOAD)) return loaded;
    const char* const setting = environment_variable("TESSERA_CUDA_LIBRARIES");
    std::string_view folders = setting != nullptr ? setting : "";
    while (!folders.empty()) {
      const std::string_view folder = folders.substr(0, folders.find(':'));
      folders.remove_prefix(std::min(folder.size() + 1, folders.size()));
      if (folder.empty()) continue;
      if (void* const named = dlopen((std::string(folder) + '/' + file_name).c_str(), mode)) return named;
    }
    return dlopen(file_name, mode);
  }

  const char* file_name_;
  void* handle_;
};

}  // namespace tessera::kernels::cuda
