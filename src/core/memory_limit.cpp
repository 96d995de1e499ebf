#include "core/memory_limit.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
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

/// The files of a cgroup.
struct Files {
  const char* limit;
  const char* usage;
  const char* of_files;  ///< a line of memory.stat: pages that can be read again
};
constexpr Files second_version{"memory.max", "memory.current", "inactive_file"};
constexpr Files first_version{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

std::optional<std::size_t> number_in(const std::string& file) {
  std::size_t number = 0;
  return std::ifstream(file) >> number ? std::optional(number) : std::nullopt;  // "max" is none
}
/// In a file of lines "name number", "name: number kB" among them.
std::size_t number_of(const std::string& name, const std::string& file) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string word, unit;
    std::size_t number = 0;
    if (fields >> word >> number && (word == name || word == name + ":"))
      return fields >> unit && unit == "kB" ? number * 1024 : number;
  }
  return 0;
}

/// Calls `visit(folder, its files)` for each cgroup that this process is in.
template <class Visit>
void for_each_group(const std::string& root, Visit visit) {
  const std::vector<Mount> mounts = mounts_of_memory(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  // "0::/folder" of version 2, "7:memory:/folder" of version 1
  for (std::string number, controllers, folder;
       std::getline(groups, number, ':') && std::getline(groups, controllers, ':') && std::getline(groups, folder);) {
    for (const Mount& mount : mounts) {
      if (mount.is_second_version ? !controllers.empty() : !is_among("memory", controllers)) continue;
      const bool is_inside = mount.root != "/" && (folder + "/").starts_with(mount.root + "/");
      std::string group = is_inside ? folder.substr(mount.root.size()) : folder;
      for (bool is_top = false; !is_top;) {
        visit(root + mount.folder + group + "/", mount.is_second_version ? second_version : first_version);
        const std::size_t slash = group.rfind('/');
        is_top = group == "/" || slash == std::string::npos;
        if (!is_top) group.erase(slash);
      }
    }
  }
}

}  // namespace

std::size_t memory_of_machine() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t memory_limit(const std::string& root) {
  std::size_t least = memory_of_machine();
  for_each_group(root, [&](const std::string& folder, const Files& files) {
    least = std::min(least, number_in(folder + files.limit).value_or(least));
  });
  return least;
}

std::size_t available_memory(const std::string& root) {
  std::size_t least = number_of("MemAvailable", root + "/proc/meminfo");
  for_each_group(root, [&](const std::string& folder, const Files& files) {
    const std::optional<std::size_t> limit = number_in(folder + files.limit);
    if (!limit || *limit > memory_of_machine()) return;
    const std::size_t used = number_in(folder + files.usage).value_or(0);
    const std::size_t free = *limit - std::min(*limit, used);
    least = std::min(least, free + number_of(files.of_files, folder + "memory.stat"));
  });
  return least;
}

}  // namespace tessera
