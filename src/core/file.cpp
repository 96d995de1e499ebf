#include "core/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "core/parse_integer.hpp"

namespace tessera {
namespace {

constexpr mode_t readable_and_writable = 0666;  // minus the bits of umask

/// The descriptor of this process that the name refers to.
std::optional<int> descriptor_named(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    path.remove_prefix(folder.size());
    int number = -1;
    if (parse_integer(path, 0, std::numeric_limits<int>::max(), number)) return number;
    return std::nullopt;
  }
  return std::nullopt;
}

int open_uninterrupted(const char* path, int flags) {
  int descriptor = -1;
  do {
    descriptor = open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, readable_and_writable);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

/// @return 0, or an errno
int take(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EINVAL;
  // A lock of the open file, held until its last descriptor is closed. On a file system without locks no process can
  // own a file.
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return EWOULDBLOCK;
  return 0;
}

}  // namespace

OutputFile::OutputFile(const std::string& path, Use use) {
  const auto named = descriptor_named(path);
  switch (use) {
    case Use::append:
      descriptor_ =
          named ? fcntl(*named, F_DUPFD_CLOEXEC, 0) : open_uninterrupted(path.c_str(), O_WRONLY | O_APPEND | O_CREAT);
      break;
    case Use::own:
      // Without this flag, opening a FIFO would wait for its reader.
      descriptor_ = open_uninterrupted(path.c_str(), O_RDWR | O_CREAT | O_NONBLOCK);
      break;
    case Use::create:
      descriptor_ = open_uninterrupted(path.c_str(), O_WRONLY | O_CREAT | O_EXCL);
      break;
  }
  if (descriptor_ < 0) {
    error_ = errno;
    return;
  }
  if (use == Use::own) error_ = take(descriptor_);
  if (error_ != 0) close();
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), error_(other.error_) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(error_, other.error_);
  return *this;
}

bool OutputFile::is_taken() const { return error_ == EWOULDBLOCK; }

std::string OutputFile::why() const {
  if (error_ == ELOOP) return "it is a symbolic link";
  if (error_ == EINVAL) return "it is no regular file";
  return std::strerror(error_);
}

bool OutputFile::write(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      error_ = written < 0 ? errno : ENOSPC;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool OutputFile::replace_from(std::int64_t offset, std::string_view text) noexcept {
  if (lseek(descriptor_, offset, SEEK_SET) == offset) {
    if (!write(text)) return false;
    if (ftruncate(descriptor_, offset + static_cast<std::int64_t>(text.size())) == 0) return true;
  }
  error_ = errno;
  return false;
}

bool OutputFile::close() noexcept {
  if (descriptor_ < 0) return true;
  const bool good = ::close(std::exchange(descriptor_, -1)) == 0;
  if (!good) error_ = errno;
  return good;
}

}  // namespace tessera
