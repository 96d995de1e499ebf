// The only place where the libraries read the environment; and the guard that preserves the program's errno.
#pragma once

#include <cerrno>
#include <cstdlib>

namespace tessera {

/// The value of an environment variable; nullptr if it is not set. In a process with more privileges than its user
/// (set-user-id, set-group-id, file capabilities) no variable counts as set. That user must not choose the files that
/// the process loads or writes.
inline const char* environment_variable(const char* name) noexcept { return secure_getenv(name); }

/// Restores errno in its destructor: calls of BLAS must not change it.
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
