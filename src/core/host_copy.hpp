// Copies within host memory, past the cache or within it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "core/scalar.hpp"

namespace tessera {

/// The size from which the C library would write past the cache.
inline constexpr index_t cached_copy_bytes = index_t{32} << 10;

/// Copies to a target that is read again soon.
inline void copy_cached(std::byte* to, const std::byte* from, index_t bytes) {
  while (bytes > 0) {
    const index_t run = std::min(bytes, cached_copy_bytes);
    std::memcpy(to, from, static_cast<std::size_t>(run));
    to += run;
    from += run;
    bytes -= run;
  }
}

/// Copies past the cache: the target is not read again soon, and its cache lines need not be fetched before they are
/// overwritten. Other threads see the data after finish_streaming().
inline void copy_streaming(std::byte* to, const std::byte* from, index_t bytes) {
#if defined(__SSE2__)
  constexpr index_t line = 64;
  const auto ahead = static_cast<index_t>((line - reinterpret_cast<std::uintptr_t>(to) % line) % line);
  const index_t head = std::min(bytes, ahead);
  std::memcpy(to, from, static_cast<std::size_t>(head));
  const index_t lines = (bytes - head) / line;
  for (index_t i = 0; i < lines; ++i) {
    const auto* source = reinterpret_cast<const __m128i*>(from + head + i * line);
    auto* target = reinterpret_cast<__m128i*>(to + head + i * line);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  const index_t done = head + lines * line;
  std::memcpy(to + done, from + done, static_cast<std::size_t>(bytes - done));
#else
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
#endif
}

/// Orders the stores of copy_streaming. Nothing else does.
inline void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace tessera
