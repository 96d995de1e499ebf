// Reciprocals by which many elements are multiplied. A GPU's own division is correct to the last bit for every number,
// and slower. Its code for rare numbers makes unrolled loops too long for the instruction cache.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/block/device_code.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::block {

/// Whether the exponent lies between -100 and 100.
template <class R>
TESSERA_DEVICE bool is_moderate(R a) {
  using Bits = std::conditional_t<sizeof(R) == sizeof(float), std::uint32_t, std::uint64_t>;
  constexpr int digits = std::numeric_limits<R>::digits - 1, bias = std::numeric_limits<R>::max_exponent - 1;
  Bits bits;
  memcpy(&bits, &a, sizeof bits);
  const auto exponent = static_cast<unsigned>(bits >> digits) & (2 * bias + 1);
  return exponent - (bias - 100) <= 200;
}

/// Keeps code for rare numbers behind a branch. Otherwise the compiler computes it for all numbers and discards it.
template <class R>
TESSERA_DEVICE void stay_apart(R& value) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(R) == sizeof(float))
    asm volatile("" : "+f"(value));
  else
    asm volatile("" : "+d"(value));
#else
  static_cast<void>(value);
#endif
}

/// 1 / a with about 20 correct bits; exact for 0 and infinity.
template <class R>
TESSERA_DEVICE R rough_reciprocal(R a) {
#if defined(__CUDA_ARCH__)
  R y;
  if constexpr (sizeof(R) == sizeof(float))
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
  else
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(a));
  return y;
#else
  return R(1) / a;
#endif
}

/// 1 / a, correct but for the last bit. @pre both are normal numbers
template <class R>
TESSERA_DEVICE R normal_reciprocal(R a) {
  R y = rough_reciprocal(a);
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(R) == sizeof(double)) {  // 60 correct bits
    const R rest = fused(-a, y, R(1));
    y = fused(y, fused(rest, rest, rest), y);
  }
  y = fused(y, fused(-a, y, R(1)), y);
#endif
  return y;
}
template <class R, int parts>
TESSERA_DEVICE Element<R, parts> normal_reciprocal(const Element<R, parts>& a) {
  using E = Element<R, parts>;
  if constexpr (parts == 1) {
    return E{{normal_reciprocal(a.part[0])}};
  } else {
    const R x = a.part[E::re], y = a.part[E::im];
    const bool real_is_larger = (x < 0 ? -x : x) >= (y < 0 ? -y : y);
    const R larger = real_is_larger ? x : y, smaller = real_is_larger ? y : x;
    const R ratio = smaller * normal_reciprocal(larger);
    const R scale = normal_reciprocal(fused(smaller, ratio, larger));
    const R other = ratio * scale;
    return real_is_larger ? E{{scale, -other}} : E{{other, -scale}};
  }
}
/// A constant, because device code cannot call quiet_NaN().
template <class R>
struct Unknown {
  static constexpr R value = std::numeric_limits<R>::quiet_NaN();
};
/// The reciprocal of an element that is 0, infinite or a NaN.
template <class R, int parts>
TESSERA_DEVICE Element<R, parts> extreme_reciprocal(const Element<R, parts>& a) {
  using E = Element<R, parts>;
  E inverse;
  TESSERA_UNROLL
  for (int p = 0; p < parts; ++p) inverse.part[p] = rough_reciprocal(a.part[p]);
  if constexpr (parts == 2) {
    // If exactly one part is infinite the reciprocal is zero, as in Smith's method; else the result is a NaN.
    const bool one_is_infinite = (inverse.part[0] == 0) != (inverse.part[1] == 0);
    inverse.part[0] = inverse.part[1] = one_is_infinite ? R(0) : Unknown<R>::value;
  }
  return inverse;
}

/// Divides by a number of any size as a product. A power of two scales the number so that its reciprocal is normal.
template <class R, int parts>
struct ScaledReciprocal {
  Element<R, parts> inverse;
  R scale = 1;
  bool scales;

  explicit TESSERA_DEVICE ScaledReciprocal(const Element<R, parts>& of) {
    scales = !is_moderate(parts == 1 ? of.part[0] : magnitude(of));
    Element<R, parts> scaled = of;
    bool is_extreme = false;
    if (scales) {
      const R size = magnitude(of);
      scale = size < 1 ? R(0x1p64) : R(0x1p-64);
      scaled = product(of, scale);
      is_extreme = !(size > 0 && size <= Element<R, parts>::most_normal);
      stay_apart(scaled.part[0]);
    }
    inverse = normal_reciprocal(scaled);
    if (is_extreme) {
      inverse = extreme_reciprocal(of);
      stay_apart(inverse.part[0]);
    }
  }
  TESSERA_DEVICE Element<R, parts> quotient(const Element<R, parts>& a) const {
    const Element<R, parts> result = product(a, inverse);
    return scales ? product(result, scale) : result;
  }
};

/// A square root and its reciprocal.
template <class R>
struct Root {
  R root, inverse;
};
/// @pre a > 0
template <class R>
TESSERA_DEVICE Root<R> root_of(R a) {
  using std::sqrt;
  const R root = sqrt(a);
  return {root, R(1) / root};
}

}  // namespace tessera::kernels::block
