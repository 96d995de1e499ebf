// Reserves memory for elements before they are added. So an action that cannot be undone can still be recorded when
// memory has run out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tessera {

/// Reserves memory for `more` elements: adding them does not throw. @throws std::bad_alloc
template <class T>
void reserve_more(std::vector<T>& elements, std::size_t more) {
  const std::size_t wanted = elements.size() + more;
  if (elements.capacity() < wanted) elements.reserve(std::max(wanted, 2 * elements.capacity()));
}

/// The same. @return false if there is no memory
template <class T>
bool try_reserve(std::vector<T>& elements, std::size_t more) noexcept {
  try {
    reserve_more(elements, more);
  } catch (...) {
    return false;
  }
  return true;
}

}  // namespace tessera
