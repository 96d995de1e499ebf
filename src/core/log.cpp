// One diagnostic line is one write(2), so that lines of several threads and processes do not mix. The program's stdio
// buffers are left alone.
#include "core/log.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>

#include "core/thread.hpp"

namespace tessera {

void log_line(std::string_view text) noexcept {
  constexpr std::string_view prefix = "tessera: ";
  constexpr std::string_view cut = " [...]";
  std::array<char, 4096> line;
  const std::size_t room = line.size() - prefix.size() - cut.size() - 1;
  const bool fits = text.size() <= room;
  if (!fits) text = text.substr(0, room);

  std::size_t length = 0;
  for (const std::string_view part : {prefix, text, fits ? std::string_view() : cut, std::string_view("\n")}) {
    if (part.empty()) continue;
    std::memcpy(line.data() + length, part.data(), part.size());
    length += part.size();
  }
  // A message with line breaks (dlopen's, say) stays one line.
  for (std::size_t i = 0; i + 1 < length; ++i) {
    if (line[i] == '\n') line[i] = ' ';
  }

  const WithoutCancellation stays;
  const int saved_errno = errno;
  ssize_t written = 0;
  do {
    written = ::write(STDERR_FILENO, line.data(), length);
  } while (written < 0 && errno == EINTR);
  errno = saved_errno;
}

void log_line_once(const std::string& subject, const std::string& text) {
  // Never destroyed: threads may still log while the process ends.
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& told = *new std::set<std::string>;
  {
    const std::lock_guard lock(mutex);
    if (!told.insert(subject).second) return;
  }
  log_line(subject + " " + text);
}

}  // namespace tessera
