// What the loader knows of the objects of this process. Used by libraries that share nothing with each other, so that all of
// it is inline. Each of these functions takes a lock of the loader, which the child of a fork meanwhile would find taken.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tessera {

/// The object that an address lies in, which is its handle, too. nullptr: in none. Thread-safe, as all of these.
inline const link_map* object_of(void* address) {
  Dl_info info{};
  link_map* object = nullptr;
  if (address == nullptr || dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0)
    return nullptr;
  return object;
}

/// Its file, as the loader calls it. Valid while the object is loaded; nullptr: there is none.
inline const char* file_of_object(void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fname : nullptr;
}

/// From now on a loaded object stays until the process ends. @param file may be null
/// @return its handle, which need not be closed; nullptr: no such object is loaded
inline void* keep_loaded(const char* file) {
  return file != nullptr ? dlopen(file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : nullptr;
}

/// Files of all objects but the program. @throws std::bad_alloc
inline std::vector<std::string> loaded_objects() {
  std::vector<std::string> files;
  // Collected only: inside the walk the loader's lock is held.
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* to) {
        if (object->dlpi_name != nullptr && object->dlpi_name[0] != '\0')
          static_cast<std::vector<std::string>*>(to)->emplace_back(object->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

/// How many objects the process has loaded so far, those that it has closed included. Never 0.
inline unsigned long long loads_so_far() {
  unsigned long long loads = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* to) {
        *static_cast<unsigned long long*>(to) = object->dlpi_adds;
        return 1;  // each object tells it
      },
      &loads);
  return loads;
}

}  // namespace tessera
