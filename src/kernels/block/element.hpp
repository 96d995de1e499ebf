// Elements of real and complex matrices, with the arithmetic of the kernels in fused multiply-adds. Quotients of
// complex numbers are scaled by the larger part (Smith), so that nothing overflows early.
#pragma once

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/scalar.hpp"
#include "kernels/block/device_code.hpp"

namespace tessera::kernels::block {

/// A stored element: one part for a real type, a real and an imaginary part for a complex one.
template <class R, int parts>
struct alignas(parts * sizeof(R)) Element {
  using Part = R;
  static constexpr int part_count = parts;
  R part[parts];
  static constexpr int re = 0, im = parts - 1;
  // Constants, because device code cannot call the functions of std::numeric_limits.
  static constexpr R least_normal = std::numeric_limits<R>::min();
  static constexpr R most_normal = std::numeric_limits<R>::max();
};

template <Scalar T>
inline constexpr int parts_of = is_complex(scalar_type_of<T>()) ? 2 : 1;
template <Scalar T>
using PartOf = std::conditional_t<sizeof(T) / parts_of<T> == sizeof(float), float, double>;
template <Scalar T>
using ElementOf = Element<PartOf<T>, parts_of<T>>;

/// Converts a number without changing its value. Host code.
template <Scalar T>
ElementOf<T> element_from(const T& value) {
  static_assert(sizeof(ElementOf<T>) == sizeof(T));
  ElementOf<T> element;
  std::memcpy(&element, &value, sizeof element);
  return element;
}

template <class R, int parts>
Element<R, parts> element_from(const AnyScalar& value) {
  return element_from(scalar_cast<std::conditional_t<parts == 1, R, std::complex<R>>>(value));
}

template <class R>
TESSERA_DEVICE R fused(R a, R b, R c) {
  using std::fma;
  return fma(a, b, c);
}

/// Returns a * b + c, or c. It is written without a branch, which the compiler would otherwise generate.
template <class R>
TESSERA_DEVICE R fused_if(bool condition, R a, R b, R c) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(R) == sizeof(float)) {
    asm("{.reg .pred p; setp.ne.s32 p, %3, 0; @p fma.rn.f32 %0, %1, %2, %0;}"
        : "+f"(c)
        : "f"(a), "f"(b), "r"(static_cast<int>(condition)));
  } else {
    asm("{.reg .pred p; setp.ne.s32 p, %3, 0; @p fma.rn.f64 %0, %1, %2, %0;}"
        : "+d"(c)
        : "d"(a), "d"(b), "r"(static_cast<int>(condition)));
  }
  return c;
#else
  return condition ? fused(a, b, c) : c;
#endif
}

template <class R, int parts>
TESSERA_DEVICE Element<R, parts> product(const Element<R, parts>& a, const Element<R, parts>& b) {
  using E = Element<R, parts>;
  if constexpr (parts == 1) {
    return E{{a.part[0] * b.part[0]}};
  } else {
    return E{{fused(a.part[E::re], b.part[E::re], -(a.part[E::im] * b.part[E::im])),
              fused(a.part[E::re], b.part[E::im], a.part[E::im] * b.part[E::re])}};
  }
}

/// a b + c
template <class R, int parts>
TESSERA_DEVICE Element<R, parts> fused(const Element<R, parts>& a, const Element<R, parts>& b, Element<R, parts> c) {
  using E = Element<R, parts>;
  c.part[E::re] = fused(a.part[E::re], b.part[E::re], c.part[E::re]);
  if constexpr (parts == 2) {
    c.part[E::re] = fused(-a.part[E::im], b.part[E::im], c.part[E::re]);
    c.part[E::im] = fused(a.part[E::re], b.part[E::im], c.part[E::im]);
    c.part[E::im] = fused(a.part[E::im], b.part[E::re], c.part[E::im]);
  }
  return c;
}

template <class R, int parts>
TESSERA_DEVICE Element<R, parts> fused_if(bool condition, const Element<R, parts>& a, const Element<R, parts>& b,
                                          Element<R, parts> c) {
  using E = Element<R, parts>;
  c.part[E::re] = fused_if(condition, a.part[E::re], b.part[E::re], c.part[E::re]);
  if constexpr (parts == 2) {
    c.part[E::re] = fused_if(condition, -a.part[E::im], b.part[E::im], c.part[E::re]);
    c.part[E::im] = fused_if(condition, a.part[E::re], b.part[E::im], c.part[E::im]);
    c.part[E::im] = fused_if(condition, a.part[E::im], b.part[E::re], c.part[E::im]);
  }
  return c;
}

/// The product with a real factor: an infinite part does not make the other one a NaN.
template <class R, int parts>
TESSERA_DEVICE Element<R, parts> product(Element<R, parts> a, R b) {
  TESSERA_UNROLL
  for (R& part : a.part) part *= b;
  return a;
}

template <class R, int parts>
TESSERA_DEVICE Element<R, parts> negative(Element<R, parts> a) {
  TESSERA_UNROLL
  for (R& part : a.part) part = -part;
  return a;
}

/// The element without its imaginary part, even if that is a NaN.
template <class R, int parts>
TESSERA_DEVICE Element<R, parts> real_part(Element<R, parts> a) {
  if constexpr (parts == 2) a.part[1] = 0;
  return a;
}

template <class R, int parts>
TESSERA_DEVICE Element<R, parts> reciprocal(const Element<R, parts>& a) {
  using E = Element<R, parts>;
  if constexpr (parts == 1) {
    return E{{R(1) / a.part[0]}};
  } else {
    const R x = a.part[E::re], y = a.part[E::im];
    if ((x < 0 ? -x : x) >= (y < 0 ? -y : y)) {
      const R ratio = y / x;
      const R scale = R(1) / (x + y * ratio);
      return E{{scale, -ratio * scale}};
    }
    const R ratio = x / y;
    const R scale = R(1) / (y + x * ratio);
    return E{{ratio * scale, -scale}};
  }
}

template <class R, int parts>
TESSERA_DEVICE R magnitude(const Element<R, parts>& a) {
  using E = Element<R, parts>;
  const R x = a.part[E::re] < 0 ? -a.part[E::re] : a.part[E::re];
  const R y = a.part[E::im] < 0 ? -a.part[E::im] : a.part[E::im];
  return x >= y ? x : y;  // a NaN in y gives a NaN
}

/// Whether the element is a normal number: not zero, subnormal, infinite or NaN.
template <class R, int parts>
TESSERA_DEVICE bool is_normal(const Element<R, parts>& a) {
  const R size = magnitude(a);
  return size >= Element<R, parts>::least_normal && size <= Element<R, parts>::most_normal;
}

/// a / b where 1 / b is not a normal number.
template <class R, int parts>
TESSERA_DEVICE Element<R, parts> quotient(Element<R, parts> a, Element<R, parts> b) {
  using E = Element<R, parts>;
  if constexpr (parts == 1) {
    return E{{a.part[0] / b.part[0]}};
  } else {
    // Scales to where products with b round as usual. Digits of a that get lost or overflow here would do so in the
    // quotient, too.
    const R scale = magnitude(b) < 1 ? R(0x1p64) : R(0x1p-64);
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) {
      a.part[p] *= scale;
      b.part[p] *= scale;
    }
    const R x = b.part[E::re], y = b.part[E::im];
    if ((x < 0 ? -x : x) >= (y < 0 ? -y : y)) {
      const R ratio = y / x;
      const R divisor = fused(y, ratio, x);
      return E{{fused(a.part[E::im], ratio, a.part[E::re]) / divisor,
                fused(-a.part[E::re], ratio, a.part[E::im]) / divisor}};
    }
    const R ratio = x / y;
    const R divisor = fused(x, ratio, y);
    return E{
        {fused(a.part[E::re], ratio, a.part[E::im]) / divisor, fused(a.part[E::im], ratio, -a.part[E::re]) / divisor}};
  }
}

}  // namespace tessera::kernels::block
