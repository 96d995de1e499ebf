// The width of a BLAS's integers, which its symbol names do not always show.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera {

/// Calls a BLAS to find out. isamax returns 1 for n = 1, and 0 for a negative n; the variable is 1 in its lower 32 bits
/// and negative in all 64.
/// @param isamax its function; may be null
/// @return 32 or 64; 0: there is no such function
inline int integer_bits_by(void* isamax) {
  static_assert(std::endian::native == std::endian::little);
  if (isamax == nullptr) return 0;
  using Isamax = std::int32_t (*)(const std::int64_t* n, const float* x, const std::int64_t* incx);
  const std::int64_t size = 1 - (std::int64_t{1} << 32), stride = 1;
  const float element = 1;
  return reinterpret_cast<Isamax>(isamax)(&size, &element, &stride) == 1 ? 32 : 64;
}

}  // namespace tessera
