// The places of the libraries relative to the executable: a build tree and an install tree have the same shape.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera::tools {

inline constexpr const char* plugin_name = "libtessera_cuda.so";

/// Folders that may hold our libraries: ../lib and the library folder of the installation.
std::vector<std::filesystem::path> library_folders();

/// The first of library_folders() with this file in it.
std::optional<std::filesystem::path> find_library(const std::string& file_name);

}  // namespace tessera::tools
