#include "core/integer_width.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace integer_width_test {

// The reference's isamax for the arguments that are used here.
template <class Integer>
Integer isamax(const Integer* n, const float* /*x*/, const Integer* incx) {
  return *n < 1 || *incx <= 0 ? 0 : 1;
}

TEST(IntegerWidth, IsAskedOfTheLibrary) {
  EXPECT_EQ(integer_bits_by(reinterpret_cast<void*>(&isamax<std::int32_t>)), 32);
  EXPECT_EQ(integer_bits_by(reinterpret_cast<void*>(&isamax<std::int64_t>)), 64);
}

TEST(IntegerWidth, NobodyToAsk) { EXPECT_EQ(integer_bits_by(nullptr), 0); }

}  // namespace integer_width_test
}  // namespace tessera
