// Parses whole numbers as settings, launchers and the kernel write them.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace tessera {

/// Parses `text`, all of which must be a number in [least, most], into `value`.
/// @return false if it is not such a number; `value` is unchanged then
template <class Integer>
bool parse_integer(std::string_view text, std::type_identity_t<Integer> least, std::type_identity_t<Integer> most,
                   Integer& value) {
  Integer parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size() || parsed < least || parsed > most) return false;
  value = parsed;
  return true;
}

}  // namespace tessera
