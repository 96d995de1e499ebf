// A rate of computation, per second or per clock, in each of the four types. The types differ: a GPU for graphics is 64
// times as fast in single precision as in double.
#pragma once

#include <array>
#include <cstddef>

#include "core/scalar.hpp"

namespace tessera {

/// A rate for each scalar type, of real operations also where the type is complex.
class RatesByType {
 public:
  /// The same in all types.
  constexpr RatesByType(double all = 0) : rates_{all, all, all, all} {}  // NOLINT(google-explicit-constructor): a rate
  /// Of the two precisions.
  constexpr RatesByType(double of_single, double of_double) : rates_{of_single, of_double, of_single, of_double} {}
  constexpr RatesByType(double s, double d, double c, double z) : rates_{s, d, c, z} {}

  constexpr double& operator[](ScalarType type) { return rates_[static_cast<std::size_t>(type)]; }
  constexpr double operator[](ScalarType type) const { return rates_[static_cast<std::size_t>(type)]; }
  constexpr auto begin() const { return rates_.begin(); }
  constexpr auto end() const { return rates_.end(); }
  bool operator==(const RatesByType&) const = default;

 private:
  std::array<double, 4> rates_;
};

}  // namespace tessera
