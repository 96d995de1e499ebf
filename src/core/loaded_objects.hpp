// The loader's knowledge of the objects of this process. Libraries that share no code use this, so all of it is inline.
// Each function takes a lock of the loader; a child that is forked meanwhile would inherit it locked.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tessera {

/// The object that contains an address; also serves as its handle. nullptr: no object. Thread-safe, as all of these.
inline const link_map* object_of(void* address) {
  Dl_info info{};
  link_map* object = nullptr;
  if (address == nullptr || dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0)
    return nullptr;
  return object;
}

/// Its file by the loader's name for it. Valid while the object is loaded; nullptr: there is none.
inline const char* file_of_object(void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fname : nullptr;
}

/// Keeps a loaded object in memory until the process ends. @param file may be null
/// @return its handle, which need not be closed; nullptr: no such object is loaded
inline void* keep_loaded(const char* file) {
  return file != nullptr ? dlopen(file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : nullptr;
}

/// Files of all objects except the program. @throws std::bad_alloc
inline std::vector<std::string> loaded_objects() {
  std::vector<std::string> files;
  // Only collects names: the walk holds the loader's lock.
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* to) {
        if (object->dlpi_name != nullptr && object->dlpi_name[0] != '\0')
          static_cast<std::vector<std::string>*>(to)->emplace_back(object->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

/// The number of objects that the process has loaded so far, including those it has closed. Never 0.
inline unsigned long long loads_so_far() {
  unsigned long long loads = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* to) {
        *static_cast<unsigned long long*>(to) = object->dlpi_adds;
        return 1;  // every object reports the same number
      },
      &loads);
  return loads;
}

}  // namespace tessera
