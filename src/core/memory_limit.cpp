#include "core/memory_limit.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace tessera {
namespace {

/// Where a hierarchy of cgroups is mounted, and which of its folders that is.
struct Mount {
  std::string folder;
  std::string root;
  bool is_second_version = false;
};

bool is_among(const std::string& name, const std::string& list) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

/// The hierarchies that may limit memory. A line of mountinfo: number, parent, device, root, folder, options, further
/// fields, "-", type, source, options of the type.
std::vector<Mount> mounts_of_memory(const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string skipped, type, source, options;
    Mount mount;
    fields >> skipped >> skipped >> skipped >> mount.root >> mount.folder;
    while (fields >> skipped && skipped != "-") {
    }
    fields >> type >> source >> options;
    mount.is_second_version = type == "cgroup2";
    if (mount.is_second_version || (type == "cgroup" && is_among("memory", options))) mounts.push_back(mount);
  }
  return mounts;
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

}  // namespace

std::size_t memory_of_machine() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t memory_limit(const std::string& root) {
  std::size_t least = memory_of_machine();
  const std::vector<Mount> mounts = mounts_of_memory(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  // "0::/folder" of version 2, "7:memory:/folder" of version 1
  for (std::string number, controllers, folder;
       std::getline(groups, number, ':') && std::getline(groups, controllers, ':') && std::getline(groups, folder);) {
    for (const Mount& mount : mounts) {
      if (mount.is_second_version ? !controllers.empty() : !is_among("memory", controllers)) continue;
      const bool is_inside = mount.root != "/" && folder.starts_with(mount.root);
      least = least_limit(root + mount.folder, is_inside ? folder.substr(mount.root.size()) : folder,
                          mount.is_second_version ? "memory.max" : "memory.limit_in_bytes", least);
    }
  }
  return least;
}

}  // namespace tessera
