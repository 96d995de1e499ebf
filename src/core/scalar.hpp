// The vocabulary of matrices: index type, the four BLAS scalar types and the BLAS enumerations.
// Owns no state. Everything above works on type-erased tiles; only the kernels look at the scalar type.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace tessera {

/// Every dimension, leading dimension and product of the two. Narrowed once, checked, where a library wants int.
using index_t = std::int64_t;

enum class ScalarType : std::uint8_t { s, d, c, z };
inline constexpr ScalarType scalar_types[] = {ScalarType::s, ScalarType::d, ScalarType::c, ScalarType::z};
enum class Layout : std::uint8_t { col_major, row_major };
enum class Op : std::uint8_t { no_trans, trans, conj_trans };
enum class Side : std::uint8_t { left, right };
enum class Uplo : std::uint8_t { upper, lower };
enum class Diag : std::uint8_t { non_unit, unit };

/// The part of a stored block: all of it, or one triangle with the diagonal.
enum class Part : std::uint8_t { full, lower, upper };

template <class T>
concept Scalar = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::complex<float>> ||
    std::same_as<T, std::complex<double>>;

template <Scalar T>
constexpr ScalarType scalar_type_of() {
  if constexpr (std::same_as<T, float>) return ScalarType::s;
  if constexpr (std::same_as<T, double>) return ScalarType::d;
  if constexpr (std::same_as<T, std::complex<float>>) return ScalarType::c;
  return ScalarType::z;
}

constexpr std::size_t element_bytes(ScalarType type) {
  constexpr std::size_t bytes[] = {4, 8, 8, 16};
  return bytes[static_cast<std::size_t>(type)];
}
constexpr bool is_complex(ScalarType type) { return type == ScalarType::c || type == ScalarType::z; }
constexpr char letter(ScalarType type) { return "sdcz"[static_cast<std::size_t>(type)]; }

/// alpha and beta of any of the four types; float values are represented exactly.
using AnyScalar = std::complex<double>;

template <Scalar T>
constexpr T scalar_cast(AnyScalar value) {
  if constexpr (std::floating_point<T>) {
    return static_cast<T>(value.real());
  } else {
    using Real = typename T::value_type;
    return T(static_cast<Real>(value.real()), static_cast<Real>(value.imag()));
  }
}

/// Calls `f(T{})` with the C++ type that `type` names; the only place where a type-erased tile becomes typed.
template <class F>
decltype(auto) dispatch(ScalarType type, F&& f) {
  switch (type) {
    case ScalarType::s:
      return f(float{});
    case ScalarType::d:
      return f(double{});
    case ScalarType::c:
      return f(std::complex<float>{});
    case ScalarType::z:
      break;
  }
  return f(std::complex<double>{});
}

}  // namespace tessera
