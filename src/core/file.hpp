// Files that the library writes because a setting names them. All are opened here.
//
// The last part of a name may be no symbolic link: where others may write into the folder, a link leads to whatever
// they like. What means an open descriptor of the process is the exception: /dev/stdout, /dev/stderr, /dev/fd/N and
// /proc/self/fd/N are written through that descriptor. FIFOs and devices are opened by name like files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

class OutputFile {
 public:
  enum class Use : std::uint8_t {
    append,  ///< to whatever it is; a file is made if need be
    own,  ///< a regular file, made if need be, that belongs to this process from here on: no other one gets it meanwhile
    create,  ///< a file that was not there
  };

  /// Nothing is open.
  OutputFile() = default;
  /// Opens the file; *this is false if that failed. An `own` file is not emptied. Does not throw but for lack of
  /// memory.
  OutputFile(const std::string& path, Use use);
  ~OutputFile() { close(); }
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  explicit operator bool() const { return descriptor_ >= 0; }
  /// An own file has another owner, a process that still runs.
  bool is_taken() const;
  /// Why something failed: "Permission denied"; of a symbolic link what is wrong with it.
  std::string why() const;

  /// In one write, so that the lines of several processes do not mix; only what it refuses comes later.
  /// @return false if not all of it was written
  bool write(std::string_view text) noexcept;
  /// Writes over what stands from `offset` on, and cuts the file off behind it. @pre it is an own file
  bool replace_from(std::int64_t offset, std::string_view text) noexcept;
  /// @return false if the system says only now that something was not written
  bool close() noexcept;

 private:
  int descriptor_ = -1;
  int error_ = 0;  ///< errno of what failed
};

}  // namespace tessera
