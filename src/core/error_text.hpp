// The text of an exception that is kept for later.
#pragma once

#include <exception>
#include <new>
#include <string>

namespace tessera {

/// The error's text, also if there is no memory for a copy. Never empty.
inline std::string text_of(const std::exception_ptr& error) noexcept {
  // Texts this short are not allocated on the heap.
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& known) {
    try {
      return known.what();
    } catch (...) {
      return "out of memory";
    }
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace tessera
