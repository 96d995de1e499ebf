// Numbers of 16 bits as they are stored: IEEE 754's binary16 and bfloat16, real and complex; and their conversion from
// and to single precision. No arithmetic uses them: values become single when read, and are rounded once when written.
// The four BLAS types (scalar.hpp) are apart from these: switches over them do not include these.
#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tessera {

/// binary16: 5 bits of exponent, 10 of the fraction. Bit for bit CUDA's __half.
struct Half {
  std::uint16_t bits;
};
/// The upper half of a single: 8 bits of exponent, 7 of the fraction. Bit for bit CUDA's __nv_bfloat16.
struct BFloat16 {
  std::uint16_t bits;
};

template <class R>
concept HalfReal = std::same_as<R, Half> || std::same_as<R, BFloat16>;

namespace detail {
/// value / 2^shift, rounded to nearest, ties to even.
constexpr std::uint32_t rounded_quotient(std::uint32_t value, unsigned shift) {
  const std::uint32_t quotient = value >> shift, rest = value & ((1U << shift) - 1), middle = 1U << (shift - 1);
  return quotient + (rest > middle || (rest == middle && quotient % 2 == 1) ? 1 : 0);
}
inline constexpr std::uint32_t infinity_of_single = 0x7f800000;
}  // namespace detail

/// Exact.
constexpr float to_single(Half value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16, magnitude = value.bits & 0x7fffU;
  constexpr std::uint32_t infinity = 0x7c00, least_normal = 0x0400;
  if (magnitude >= infinity)
    return std::bit_cast<float>(sign | detail::infinity_of_single | (magnitude & 0x3ffU) << 13);
  if (magnitude >= least_normal) return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
  return sign != 0 ? -subnormal : subnormal;
}
constexpr float to_single(BFloat16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

/// Rounds to nearest, ties to even. A magnitude that is at least midway between the largest number and the power of two
/// beyond it becomes infinite. Subnormal numbers are kept, and NaNs become quiet NaNs.
template <HalfReal R>
constexpr R rounded_to(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7fffffffU;
  const auto result = [&](std::uint32_t of_magnitude) { return R{static_cast<std::uint16_t>(sign | of_magnitude)}; };
  const bool is_nan = magnitude > detail::infinity_of_single;
  if constexpr (std::same_as<R, BFloat16>) {
    return result(is_nan ? magnitude >> 16 | 0x40U : detail::rounded_quotient(magnitude, 16));
  } else {
    constexpr std::uint32_t infinity = 0x7c00, too_large = (127U + 16) << 23, least_normal = (127U - 14) << 23;
    if (is_nan) return result(infinity | 0x200U | (magnitude >> 13 & 0x3ffU));
    if (magnitude >= too_large) return result(infinity);
    if (magnitude >= least_normal) return result(detail::rounded_quotient(magnitude - (112U << 23), 13));
    // In units of the least number, 2^-24. A magnitude below half a unit becomes 0.
    const std::uint32_t exponent = magnitude >> 23, fraction = (magnitude & 0x7fffffU) | 0x800000U;
    return result(exponent < 102 ? 0 : detail::rounded_quotient(fraction, 126 - exponent));
  }
}

/// An element as it is stored: one number, or the real and the imaginary part side by side (CUDA's __half2).
template <HalfReal Number, int parts_of_element>
struct alignas(parts_of_element * sizeof(Number)) HalfElement {
  using R = Number;
  static constexpr int parts = parts_of_element;
  R part[parts];
};

/// The letters of device_half.h: h, hc, bf, bfc.
enum class HalfType : std::uint8_t { h, hc, bf, bfc };
inline constexpr HalfType half_types[] = {HalfType::h, HalfType::hc, HalfType::bf, HalfType::bfc};

constexpr bool is_complex(HalfType type) { return type == HalfType::hc || type == HalfType::bfc; }
constexpr std::size_t element_bytes(HalfType type) { return is_complex(type) ? 4 : 2; }
constexpr const char* letters(HalfType type) {
  constexpr const char* all[] = {"h", "hc", "bf", "bfc"};
  return all[static_cast<std::size_t>(type)];
}

template <HalfType type>
using StoredAs = HalfElement<std::conditional_t<type == HalfType::h || type == HalfType::hc, Half, BFloat16>,
                             is_complex(type) ? 2 : 1>;

/// Calls `f(E{})` with the element that `type` names.
template <class F>
constexpr decltype(auto) dispatch(HalfType type, F&& f) {
  switch (type) {
    case HalfType::h:
      return f(StoredAs<HalfType::h>{});
    case HalfType::hc:
      return f(StoredAs<HalfType::hc>{});
    case HalfType::bf:
      return f(StoredAs<HalfType::bf>{});
    case HalfType::bfc:
      break;
  }
  return f(StoredAs<HalfType::bfc>{});
}

template <class E>
constexpr HalfType half_type_of() {
  constexpr bool is_bfloat = std::same_as<typename E::R, BFloat16>;
  if constexpr (E::parts == 1) return is_bfloat ? HalfType::bf : HalfType::h;
  return is_bfloat ? HalfType::bfc : HalfType::hc;
}

}  // namespace tessera
