// The LAPACK behind a library of ours that stands in for the system's: TESSERA_CPU_LAPACK, or the first one of the machine
// that can be opened.
#pragma once

#include <string>

namespace tessera::lapack {

/// Address of one of its functions, looked up each time; nullptr if it has none such, or there is no LAPACK. Opened at the first
/// call, on the calling thread, and left open. Thread-safe; threads that come first at the same time may each open it.
void* system_lapack_function(const char* symbol) noexcept;

/// The file that it is, or what was tried, for messages.
std::string system_lapack_name();

}  // namespace tessera::lapack
