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

/// A bad argument of Tessera's API. `position` counts from 1 as xerbla does; it is 0 if no single argument is at fault.
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

/// The device stopped working; the contents of its memory are lost.
class __attribute__((visibility("default"))) DeviceLost : public Error {
 public:
  using Error::Error;
};

/// The device refused a piece of work but can continue. It may refuse the same work again.
class __attribute__((visibility("default"))) WorkRefused : public Error {
 public:
  using Error::Error;
};

/// A backend, plugin, driver or library that was requested is missing.
class __attribute__((visibility("default"))) NotAvailable : public Error {
 public:
  using Error::Error;
};

/// All devices were lost before the call began.
class __attribute__((visibility("default"))) NoDeviceLeft : public NotAvailable {
 public:
  using NotAvailable::NotAvailable;
};

class __attribute__((visibility("default"))) InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace tessera
