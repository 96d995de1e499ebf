// For what only tells of something, or learns.
#pragma once

#include <exception>

namespace tessera::offload {

/// Where there is no memory for it, it is left out.
template <class Tell>
void quietly(Tell tell) noexcept {
  try {
    tell();
  } catch (const std::exception&) {
  }
}

}  // namespace tessera::offload
