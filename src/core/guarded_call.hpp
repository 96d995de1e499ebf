// The common wrapper of the C interfaces: it turns an exception into a Failure and this thread's last error. Each
// library has its own last errors. No exception passes through. The status codes of the public headers have the numbers
// of Failure.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "core/environment.hpp"
#include "core/error.hpp"

namespace tessera {

enum class Failure : std::uint8_t {
  none,
  invalid_argument,
  out_of_device_memory,
  device_lost,
  not_available,
  internal_error
};

/// The error of the last call of a thread.
struct LastError {
  std::string text;
  int position = 0;  ///< of the bad argument, from 1
};

inline LastError& last_error() {
  thread_local LastError error;
  return error;
}

namespace detail {
inline Failure remember(Failure failure, const char* text, int position = 0) noexcept {
  LastError& error = last_error();
  error.position = position;
  try {
    error.text = text;
  } catch (...) {  // no memory for the text: the status alone must suffice
    error.text.clear();
  }
  return failure;
}
}  // namespace detail

/// Runs `body`; an exception becomes a failure and this thread's last error. Preserves errno.
template <class Body>
Failure guarded_call(Body&& body) noexcept {
  const ErrnoKept stays;
  last_error().position = 0;
  last_error().text.clear();
  try {
    body();
    return Failure::none;
  } catch (const InvalidArgument& error) {
    return detail::remember(Failure::invalid_argument, error.what(), error.position());
  } catch (const OutOfDeviceMemory& error) {
    return detail::remember(Failure::out_of_device_memory, error.what());
  } catch (const DeviceLost& error) {
    return detail::remember(Failure::device_lost, error.what());
  } catch (const NotAvailable& error) {
    return detail::remember(Failure::not_available, error.what());
  } catch (const std::exception& error) {
    return detail::remember(Failure::internal_error, error.what());
  } catch (...) {
    return detail::remember(Failure::internal_error, "unknown error");
  }
}

/// @throws InvalidArgument unless the argument at `position` is good
inline void require_argument(bool good, int position, const char* what) {
  if (!good) throw InvalidArgument("argument " + std::to_string(position) + ": " + what, position);
}

}  // namespace tessera
