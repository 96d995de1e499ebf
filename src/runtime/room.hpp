// What must be told after something that cannot be undone, or where memory has run out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <vector>

namespace tessera::runtime {

/// Makes room for `more` elements, so that adding them does not throw. @throws std::bad_alloc
template <class T>
void make_room(std::vector<T>& elements, std::size_t more) {
  const std::size_t wanted = elements.size() + more;
  if (elements.capacity() < wanted) elements.reserve(std::max(wanted, 2 * elements.capacity()));
}

/// The same. @return false if there is no memory
template <class T>
bool has_room(std::vector<T>& elements, std::size_t more) noexcept {
  try {
    make_room(elements, more);
  } catch (...) {
    return false;
  }
  return true;
}

/// What the error says, also where there is no memory for it. Never empty.
inline std::string text_of(const std::exception_ptr& error) noexcept {
  // Texts this short need no memory.
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

}  // namespace tessera::runtime
