// The libraries of tests/slots/libraries, and the values of their slots.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "slots/object_slots.hpp"
#include "slots/slot_writer.hpp"
#include "tests/test_plugin.hpp"

namespace tessera::slots_test {

inline std::string path_of(const std::string& name) {
  return (test::library_folder() / "test_slots" / (name + ".so")).string();
}

/// A library that is open while this lives.
class OpenLibrary {
 public:
  /// @param file a path, or a name of path_of()
  explicit OpenLibrary(const std::string& file)
      : file_(file.find('/') != std::string::npos ? file : path_of(file)),
        handle_(dlopen(file_.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }
  ~OpenLibrary() { close(); }
  OpenLibrary(const OpenLibrary&) = delete;
  OpenLibrary& operator=(const OpenLibrary&) = delete;

  void close() {
    if (handle_ != nullptr) dlclose(handle_);
    handle_ = nullptr;
  }
  const std::string& file() const { return file_; }
  bool is_loaded() const {
    void* const found = dlopen(file_.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (found != nullptr) dlclose(found);
    return found != nullptr;
  }
  /// Calls its function of this name.
  int operator()(const char* function) const { return function_at(function)(); }
  using Function = int (*)();
  Function function_at(const char* function) const {
    void* const found = dlsym(handle_, function);
    if (found == nullptr) throw std::runtime_error(dlerror());
    return reinterpret_cast<Function>(found);
  }

  /// As the loader lists it.
  slots::LoadedObject object() const {
    const auto* const map = static_cast<const link_map*>(handle_);
    for (const slots::LoadedObject& object : slots::list_objects().objects) {
      if (object.id.dynamic == reinterpret_cast<std::uintptr_t>(map->l_ld)) return object;
    }
    throw std::runtime_error(file_ + " is not listed");
  }
  std::vector<slots::Slot> slots() const {
    std::vector<slots::Slot> found;
    slots::ObjectTables(object()).for_each_slot([&](const slots::Slot& slot) { found.push_back(slot); });
    return found;
  }
  /// The values of all of its slots.
  std::map<void**, void*> values() const {
    std::map<void**, void*> found;
    for (const slots::Slot& slot : slots()) found[slot.address] = slots::value_of(slot.address);
    return found;
  }

 private:
  std::string file_;
  void* handle_;
};

/// The number of its slots that have another value than in `before`.
inline int changed_slots(const OpenLibrary& library, const std::map<void**, void*>& before) {
  const auto now = library.values();
  return static_cast<int>(
      std::count_if(now.begin(), now.end(), [&](const auto& slot) { return before.at(slot.first) != slot.second; }));
}

/// The letters of /proc/self/maps for the page at an address, such as "r--p".
std::string protection_at(const void* address);

}  // namespace tessera::slots_test
