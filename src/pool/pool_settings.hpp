// The settings of the pool (docs/memory.md).
#pragma once

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/environment.hpp"

namespace tessera::pool {

/// From so many bytes on a piece is the pool's, unless something else is set.
inline constexpr std::size_t least_of_pool = std::size_t{4} << 20;

/// A number of bytes. Nothing: the variable is not set, or negative.
inline std::optional<std::size_t> bytes_of_setting(const char* name) {
  const char* const text = environment_variable(name);
  const long long bytes = text != nullptr ? std::atoll(text) : -1;
  return bytes >= 0 ? std::optional(static_cast<std::size_t>(bytes)) : std::nullopt;
}

/// @param otherwise where the variable is not set: "0" is off, all else is on
inline bool is_on(const char* name, bool otherwise) {
  const char* const text = environment_variable(name);
  return text != nullptr ? std::string_view(text) != "0" : otherwise;
}

}  // namespace tessera::pool
