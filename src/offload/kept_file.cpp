#include "offload/kept_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/environment.hpp"
#include "core/error.hpp"

namespace tessera::offload {

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// A relative path is to be ignored.
std::string cache_folder() {
  if (const char* const cache = environment_variable("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/tessera";
  if (const char* const home = environment_variable("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache/tessera";
  return "";
}

void write_whole(const std::string& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  // A name that nobody else has, on whatever machine shares the folder; not through a link, and for the user alone.
  std::string draft = path + ".XXXXXX";
  const int descriptor = mkostemp(draft.data(), O_CLOEXEC);
  bool good = descriptor >= 0 && ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (descriptor >= 0) good = close(descriptor) == 0 && good;
  if (good && std::rename(draft.c_str(), path.c_str()) == 0) return;
  const std::string why = std::strerror(errno);
  if (descriptor >= 0) std::remove(draft.c_str());
  throw NotAvailable(fmt::format("cannot write {}: {}", path, why));
}

}  // namespace tessera::offload
