// Files that the library writes because a setting names them. All are opened here.
//
// The last part of a name must not be a symbolic link. In a folder that others can write to, a link may lead to any
// file. Names of open descriptors of the process are the exception: /dev/stdout, /dev/stderr, /dev/fd/N and
// /proc/self/fd/N are written through that descriptor. FIFOs and devices are opened by name like files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

class OutputFile {
 public:
  enum class Use : std::uint8_t {
    append,  ///< to a file of any kind; a missing one is created
    own,     ///< a regular file, created if missing; no other process can own it meanwhile
    create,  ///< a new file; fails if it exists
  };

  /// Nothing is open.
  OutputFile() = default;
  /// Opens the file; *this is false if that failed. An `own` file is not emptied. Throws only if memory runs out.
  OutputFile(const std::string& path, Use use);
  ~OutputFile() { close(); }
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  explicit operator bool() const { return descriptor_ >= 0; }
  /// Whether another running process owns the file (Use::own).
  bool is_taken() const;
  /// The reason of the failure: "Permission denied", or that the name is a symbolic link.
  std::string why() const;

  /// Uses one write(2), so that the lines of several processes do not mix; further writes only for the part that it
  /// left.
  /// @return false if not all of it was written
  bool write(std::string_view text) noexcept;
  /// Replaces the contents from `offset` on by `text`, and truncates the file behind it. @pre it is an own file
  bool replace_from(std::int64_t offset, std::string_view text) noexcept;
  /// @return false if the system reports a failed write only at this point
  bool close() noexcept;

 private:
  int descriptor_ = -1;
  int error_ = 0;  ///< errno of the failed call
};

}  // namespace tessera
