// Diagnostics. The library never writes to standard output; standard error gets a line only when the user asked
// (TESSERA_VERBOSE) or set something wrong.
#pragma once

#include <string_view>

namespace tessera {

/// One line on standard error, "tessera: " in front, written with a single write(2). Never throws, never touches stdio buffers.
void log_line(std::string_view text) noexcept;

}  // namespace tessera
