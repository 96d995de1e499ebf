#include "locations.hpp"

#include <algorithm>

namespace tessera::tools {

namespace fs = std::filesystem;

std::vector<fs::path> library_folders() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  const fs::path prefix = executable.parent_path().parent_path();
  std::vector<fs::path> folders = {prefix / "lib"};
#ifdef TESSERA_INSTALL_LIBDIR
  // "lib/x86_64-linux-gnu" and the like, relative to the prefix.
  const fs::path installed = prefix / TESSERA_INSTALL_LIBDIR;
  if (std::find(folders.begin(), folders.end(), installed) == folders.end()) folders.push_back(installed);
#endif
  return folders;
}

std::optional<fs::path> find_library(const std::string& file_name) {
  for (const fs::path& folder : library_folders()) {
    std::error_code error;
    if (fs::exists(folder / file_name, error)) return folder / file_name;
  }
  return std::nullopt;
}

}  // namespace tessera::tools
