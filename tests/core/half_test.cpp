// Every number of 16 bits, and every boundary between two of them.
#include "core/half.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tessera {
namespace half_test {

template <class R>
struct Format;
template <>
struct Format<Half> {
  static constexpr int fraction = 10, exponent = 5;
};
template <>
struct Format<BFloat16> {
  static constexpr int fraction = 7, exponent = 8;
};

/// By the definition of the format (IEEE 754, 3.4).
template <class R>
double defined(unsigned bits) {
  using F = Format<R>;
  constexpr int bias = (1 << (F::exponent - 1)) - 1;
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> F::fraction & ((1U << F::exponent) - 1));
  const auto fraction = static_cast<double>(bits & ((1U << F::fraction) - 1));
  if (exponent == (1 << F::exponent) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  const double of_one = std::ldexp(fraction, -F::fraction);
  return exponent == 0 ? sign * std::ldexp(of_one, 1 - bias) : sign * std::ldexp(1 + of_one, exponent - bias);
}

template <class R>
class HalfNumbers : public ::testing::Test {};
using Types = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(HalfNumbers, Types);

TYPED_TEST(HalfNumbers, AllBecomeTheSingleThatTheyAre) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const double value = defined<TypeParam>(bits);
    const float single = to_single(TypeParam{static_cast<std::uint16_t>(bits)});
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(single)) << bits;
      continue;
    }
    EXPECT_EQ(single, value) << bits;
    EXPECT_EQ(std::signbit(single), (bits & 0x8000U) != 0) << bits;
  }
}

TYPED_TEST(HalfNumbers, AllComeBackFromSingle) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float single = to_single(TypeParam{static_cast<std::uint16_t>(bits)});
    const unsigned back = rounded_to<TypeParam>(single).bits;
    if (std::isnan(single))
      EXPECT_TRUE(std::isnan(to_single(TypeParam{static_cast<std::uint16_t>(back)}))) << bits;
    else
      EXPECT_EQ(back, bits);
  }
}

// Midway between two neighbours rounds to the even one, other values to the nearer one.
TYPED_TEST(HalfNumbers, BetweenNeighboursTheNearestIsTaken) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  unsigned middles = 0;
  for (const unsigned sign : {0U, 0x8000U}) {
    for (unsigned bits = 0;; ++bits) {
      const double below = defined<TypeParam>(bits);
      if (std::isinf(below)) break;
      double above = defined<TypeParam>(bits + 1);
      if (std::isinf(above)) above = 2 * below - defined<TypeParam>(bits - 1);
      const auto middle = static_cast<float>((below + above) / 2) * (sign != 0 ? -1.0F : 1.0F);
      ASSERT_EQ(std::abs(middle), (below + above) / 2) << "not a single";
      const unsigned even = bits % 2 == 0 ? bits : bits + 1;
      EXPECT_EQ(rounded_to<TypeParam>(middle).bits, sign | even);
      EXPECT_EQ(rounded_to<TypeParam>(std::nextafter(middle, 0.0F)).bits, sign | bits);
      EXPECT_EQ(rounded_to<TypeParam>(std::nextafter(middle, std::copysign(infinity, middle))).bits, sign | (bits + 1));
      ++middles;
    }
  }
  EXPECT_EQ(middles, 2U * (((1U << Format<TypeParam>::exponent) - 1) << Format<TypeParam>::fraction));
}

TYPED_TEST(HalfNumbers, WhatIsTooLargeIsInfiniteAndNaNsStay) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(to_single(rounded_to<TypeParam>(largest)), infinity);
  EXPECT_EQ(to_single(rounded_to<TypeParam>(-infinity)), -infinity);
  // Quiet and signalling NaNs, with fractions that do not fit into 16 bits.
  for (const std::uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fc00000U, 0x7fffffffU, 0xffbfffffU, 0x7f801000U}) {
    const TypeParam rounded = rounded_to<TypeParam>(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(to_single(rounded))) << bits;
    EXPECT_EQ(rounded.bits >> 15, bits >> 31);
  }
}

TEST(HalfNumbersByHand, Boundaries) {
  EXPECT_EQ(rounded_to<Half>(65519.996F).bits, 0x7bffU);
  EXPECT_EQ(rounded_to<Half>(65520.0F).bits, 0x7c00U);
  EXPECT_EQ(rounded_to<Half>(0x1p-25F).bits, 0U);
  EXPECT_EQ(rounded_to<Half>(0x1.000002p-25F).bits, 1U);
  EXPECT_EQ(rounded_to<Half>(-0x1p-24F).bits, 0x8001U);
  EXPECT_EQ(rounded_to<Half>(-0.0F).bits, 0x8000U);
  EXPECT_EQ(rounded_to<BFloat16>(1.00390625F).bits, 0x3f80U);
  EXPECT_EQ(rounded_to<BFloat16>(0x1p-149F).bits, 0U);
}

TEST(HalfNumbersByHand, ElementsLieAsInCuda) {
  static_assert(sizeof(StoredAs<HalfType::h>) == 2 && alignof(StoredAs<HalfType::h>) == 2);
  static_assert(sizeof(StoredAs<HalfType::bfc>) == 4 && alignof(StoredAs<HalfType::bfc>) == 4);
  for (const HalfType type : half_types) {
    dispatch(type, [&]<class E>(E) {
      EXPECT_EQ(half_type_of<E>(), type);
      EXPECT_EQ(sizeof(E), element_bytes(type));
      EXPECT_EQ(E::parts, is_complex(type) ? 2 : 1);
    });
  }
}

}  // namespace half_test
}  // namespace tessera
