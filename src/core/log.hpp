// Diagnostics. The library never writes to standard output; standard error gets a line only when the user asked
// (TESSERA_VERBOSE), set something wrong, or has a device that cannot be used.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// One line on standard error, "tessera: " in front, written with a single write(2). Never throws, never touches stdio buffers.
void log_line(std::string_view text) noexcept;

/// "SUBJECT TEXT", the first time that something is said of this subject in this process. @throws std::bad_alloc
void log_line_once(const std::string& subject, const std::string& text);

}  // namespace tessera
