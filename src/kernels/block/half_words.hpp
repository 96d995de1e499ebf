// 16-bit numbers in 32-bit words: loads, combinations and stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/block/device_code.hpp"

namespace tessera::kernels::block {

namespace detail {
/// Integers of that size, whose alignment the compiler knows.
template <std::size_t bytes>
struct IntegerOf;
template <>
struct IntegerOf<2> {
  using Type = std::uint16_t;
};
template <>
struct IntegerOf<4> {
  using Type = std::uint32_t;
};
#if defined(__CUDACC__)
template <>
struct IntegerOf<8> {
  using Type = uint2;
};
template <>
struct IntegerOf<16> {
  using Type = uint4;
};
#endif
}  // namespace detail

/// A value loaded or stored in as few instructions as possible, of at most 16 bytes each. @pre aligned as its type
/// requires
template <class Value>
TESSERA_DEVICE Value loaded(const void* from) {
  Value value;
#if defined(__CUDA_ARCH__)
  using Piece = typename detail::IntegerOf<alignof(Value)>::Type;
  Piece bits[sizeof(Value) / sizeof(Piece)];
  TESSERA_UNROLL
  for (std::size_t i = 0; i < sizeof(Value) / sizeof(Piece); ++i) bits[i] = static_cast<const Piece*>(from)[i];
  memcpy(&value, bits, sizeof(Value));
#else
  memcpy(&value, __builtin_assume_aligned(from, alignof(Value)), sizeof(Value));
#endif
  return value;
}
template <class Value>
TESSERA_DEVICE void stored(void* to, const Value& value) {
#if defined(__CUDA_ARCH__)
  using Piece = typename detail::IntegerOf<alignof(Value)>::Type;
  Piece bits[sizeof(Value) / sizeof(Piece)];
  memcpy(bits, &value, sizeof(Value));
  TESSERA_UNROLL
  for (std::size_t i = 0; i < sizeof(Value) / sizeof(Piece); ++i) static_cast<Piece*>(to)[i] = bits[i];
#else
  memcpy(__builtin_assume_aligned(to, alignof(Value)), &value, sizeof(Value));
#endif
}

/// Loads or stores so many bytes: whole words, or the lower half of one.
template <int bytes>
struct alignas(bytes) SomeWords {
  static constexpr int count = bytes / 4;
  std::uint32_t word[count];
};
template <int bytes, std::size_t words>
TESSERA_DEVICE void load_words(std::uint32_t (&to)[words], int at, const void* from) {
  if constexpr (bytes == 2) {
    to[at] = loaded<std::uint16_t>(from);
  } else {
    const auto some = loaded<SomeWords<bytes>>(from);
    TESSERA_UNROLL
    for (int i = 0; i < some.count; ++i) to[at + i] = some.word[i];
  }
}
template <int bytes, std::size_t words>
TESSERA_DEVICE void store_words(void* to, const std::uint32_t (&from)[words], int at) {
  SomeWords<bytes> some;
  TESSERA_UNROLL
  for (int i = 0; i < some.count; ++i) some.word[i] = from[at + i];
  stored(to, some);
}

/// The lower halves of two words, and their upper halves.
TESSERA_DEVICE std::uint32_t lower_halves(std::uint32_t first, std::uint32_t second) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(first, second, 0x5410);  // one instruction; the compiler would generate two
#else
  return (first & 0xffffU) | second << 16;
#endif
}
TESSERA_DEVICE std::uint32_t upper_halves(std::uint32_t first, std::uint32_t second) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(first, second, 0x7632);
#else
  return first >> 16 | (second & 0xffff0000U);
#endif
}
TESSERA_DEVICE std::uint32_t halves_exchanged(std::uint32_t word) { return word >> 16 | word << 16; }

/// The word that begins `bits` bits, 0 to 31, behind the beginning of the first of two consecutive words.
TESSERA_DEVICE std::uint32_t word_behind(std::uint32_t first, std::uint32_t second, unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(first, second, bits);
#else
  return static_cast<std::uint32_t>((std::uint64_t{second} << 32 | first) >> bits);
#endif
}

/// Where a 16-bit number lies: an aligned word, and 0 or 16, the bits from the word's beginning to the number.
template <class Byte>
struct PlaceInWords {
  Byte* word;
  unsigned bits;

  /// @param at the address of a number
  template <class E>
  explicit TESSERA_DEVICE PlaceInWords(E* at)
      : word(reinterpret_cast<Byte*>(at)), bits(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at)) % 4 * 8) {
    word -= bits / 8;
  }
};
template <class E>
PlaceInWords(E*) -> PlaceInWords<std::conditional_t<std::is_const_v<E>, const char, char>>;

inline constexpr std::uint32_t upper_sign = 0x80000000U, lower_sign = 0x8000U, both_signs = upper_sign | lower_sign;

}  // namespace tessera::kernels::block
