// The only way in which the libraries read the environment, and what they keep for the program: errno.
#pragma once

#include <cerrno>
#include <cstdlib>

namespace tessera {

/// The value of an environment variable; nullptr if it is not set. A process that runs with more privileges than who
/// started it (set-user-id, set-group-id, file capabilities) has none: whoever starts it must not choose what it loads
/// or writes.
inline const char* environment_variable(const char* name) noexcept { return secure_getenv(name); }

/// Leaves errno as it was when this was made: calls of BLAS do not change it.
class ErrnoKept {
 public:
  ErrnoKept() noexcept : value_(errno) {}
  ~ErrnoKept() { errno = value_; }
  ErrnoKept(const ErrnoKept&) = delete;
  ErrnoKept& operator=(const ErrnoKept&) = delete;

 private:
  int value_;
};

}  // namespace tessera
