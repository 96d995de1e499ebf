#include "core/memory_limit.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace tessera {
namespace {

std::size_t memory_of_machine() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// The least number that such a file says in this folder or one above it. "max" is none.
std::size_t least_limit(const std::string& top, std::string folder, const char* name, std::size_t least) {
  for (;;) {
    std::size_t bytes = 0;
    if (std::ifstream(top + folder + "/" + name) >> bytes) least = std::min(least, bytes);
    if (folder.empty() || folder == "/") return least;
    folder.erase(folder.rfind('/'));
  }
}

bool names_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

}  // namespace

std::size_t memory_limit(const std::string& root) {
  std::size_t least = memory_of_machine();
  std::ifstream groups(root + "/proc/self/cgroup");
  // "0::/folder" of version 2, "7:memory:/folder" of version 1
  for (std::string number, controllers, folder;
       std::getline(groups, number, ':') && std::getline(groups, controllers, ':') && std::getline(groups, folder);) {
    if (controllers.empty())
      least = least_limit(root + "/sys/fs/cgroup", folder, "memory.max", least);
    else if (names_memory(controllers))
      least = least_limit(root + "/sys/fs/cgroup/memory", folder, "memory.limit_in_bytes", least);
  }
  return least;
}

}  // namespace tessera
