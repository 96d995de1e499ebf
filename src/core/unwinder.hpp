// Each of our libraries contains its own copy of the C++ runtime (ADR 11). The unwinder of the throwing library carries
// an exception, and asks ours about our frames. Ours aborts the process unless its tables are filled, which happens
// when it first carries an exception itself.
#pragma once

namespace tessera {

/// Fills the tables of this library's unwinder. Must be called before any call that may throw through this library's
/// frames. Takes microseconds. Thread-safe.
inline void start_unwinder() noexcept {
  try {
    throw 0;
  } catch (int) {
  }
}

}  // namespace tessera
