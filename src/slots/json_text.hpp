// Strings of a JSON text. Paths may have any byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::slots {
namespace detail {

/// The bytes of the UTF-8 character that `text` begins with; 0: it begins with none. @pre text is not empty
inline std::size_t length_of_character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const std::uint8_t first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer forms than needed, surrogates, and numbers above the last character.
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second > 0x8f))
    return 0;
  return length;
}

}  // namespace detail

/// The string in quotes. A byte that is no UTF-8 becomes the surrogate U+DC00 + byte, by which Python names such files
/// (PEP 383).
inline std::string json_string(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string to = "\"";
  while (!text.empty()) {
    const std::size_t length = detail::length_of_character(text);
    const auto byte = static_cast<std::uint8_t>(text.front());
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      to += length == 0 ? "\\udc" : "\\u00";
      to += digits[byte >> 4];
      to += digits[byte & 15];
    } else {
      if (byte == '"' || byte == '\\') to += '\\';
      to += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return to + '"';
}

}  // namespace tessera::slots
