// Whole numbers as settings, launchers and the kernel write them.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace tessera {

/// Sets `value` to the number that `text` is: in [least, most], with nothing around it. @return false if it is none;
/// `value` stays then
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
