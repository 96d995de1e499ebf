// Diagnostics. The library never writes to standard output. It writes to standard error only if the user asked for it
// (TESSERA_VERBOSE), a setting is wrong, or a device cannot be used.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// One line on standard error, "tessera: " in front, written with a single write(2). Never throws, never touches stdio
/// buffers.
void log_line(std::string_view text) noexcept;

/// Logs "SUBJECT TEXT", but only the first line for each subject in this process. @throws std::bad_alloc
void log_line_once(const std::string& subject, const std::string& text);

}  // namespace tessera
