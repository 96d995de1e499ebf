// How wide the integers of a BLAS are, which its symbols do not always tell.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera::kernels {

/// Asks a BLAS itself: of one element isamax tells 1, of fewer than none 0, and which of them it is asked for depends on how
/// much of the variable it reads. @param isamax its function; may be null @return 32 or 64; 0: there is no such function
inline int integer_bits_by(void* isamax) {
  static_assert(std::endian::native == std::endian::little);
  if (isamax == nullptr) return 0;
  using Isamax = std::int32_t (*)(const std::int64_t* n, const float* x, const std::int64_t* incx);
  const std::int64_t size = 1 - (std::int64_t{1} << 32), stride = 1;
  const float element = 1;
  return reinterpret_cast<Isamax>(isamax)(&size, &element, &stride) == 1 ? 32 : 64;
}

}  // namespace tessera::kernels
