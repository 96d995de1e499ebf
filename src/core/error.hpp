// Errors inside the library are exceptions; the C API turns them into status codes, the BLAS face into a computation
// elsewhere. Header-only with default visibility, so that an exception thrown by the CUDA plugin is caught by the
// library.
#pragma once

#include <stdexcept>
#include <string>

namespace tessera {

class __attribute__((visibility("default"))) Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A bad argument of the own API; `position` counts from 1 as xerbla does, 0 where no single argument is to blame.
class __attribute__((visibility("default"))) InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& what, int position = 0) : Error(what), position_(position) {}
  int position() const noexcept { return position_; }

 private:
  int position_;
};

class __attribute__((visibility("default"))) OutOfDeviceMemory : public Error {
 public:
  using Error::Error;
};

/// The device stopped working; nothing that lies in its memory can be read again.
class __attribute__((visibility("default"))) DeviceLost : public Error {
 public:
  using Error::Error;
};

/// The device did not take a piece of work, and can go on. The work would perhaps be refused again.
class __attribute__((visibility("default"))) WorkRefused : public Error {
 public:
  using Error::Error;
};

/// A backend, plugin, driver or library that was asked for is not there.
class __attribute__((visibility("default"))) NotAvailable : public Error {
 public:
  using Error::Error;
};

/// All devices have been lost, before the call that they should compute has begun.
class __attribute__((visibility("default"))) NoDeviceLeft : public NotAvailable {
 public:
  using NotAvailable::NotAvailable;
};

class __attribute__((visibility("default"))) InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace tessera
