// Our libraries have the C++ runtime inside, each a copy of its own (ADR 11). An exception that comes out of another
// library is carried by that one's unwinder, which asks ours about our frames. Ours aborts the process unless it has
// carried an exception itself: only then are its tables filled.
#pragma once

namespace tessera {

/// Fills the tables of this library's unwinder. To be called before anything that may throw through this library's
/// frames. Takes microseconds. Thread-safe.
inline void start_unwinder() noexcept {
  try {
    throw 0;
  } catch (int) {
  }
}

}  // namespace tessera
