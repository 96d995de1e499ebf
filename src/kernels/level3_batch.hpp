// Many calls of one routine, type and variant, with the same factors, on matrices in the memory of one device. Arrays
// in that memory hold the arguments that differ, so the host knows nothing of a problem but bounds.
#pragma once

#include <cstdint>

#include "calls/level3.hpp"
#include "kernels/block/device_code.hpp"

namespace tessera::kernels {

/// A number per problem in device memory, or one for all.
struct NumberOfEach {
  const void* of_each = nullptr;  ///< int or, if `is_wide`, 64 bits
  index_t of_all = 0;
  bool is_wide = false;

  TESSERA_HOST_DEVICE index_t of(index_t problem) const {
    if (of_each == nullptr) return of_all;
    return is_wide ? static_cast<const std::int64_t*>(of_each)[problem] : static_cast<const int*>(of_each)[problem];
  }
};

/// A matrix per problem: at any addresses, or at a common distance in elements.
template <class E>
struct MatrixOfEach {
  E* const* of_each = nullptr;  ///< in device memory
  E* first = nullptr;
  index_t distance = 0;

  TESSERA_HOST_DEVICE E* of(index_t problem) const {
    return of_each != nullptr ? of_each[problem] : first + problem * distance;
  }
};

/// The same, of any type; `distance` is in elements.
struct UntypedMatrixOfEach {
  const void* of_each = nullptr;
  const void* first = nullptr;
  index_t distance = 0;

  /// nullptr if a routine has no such matrix: `of_each` and `first` are both null.
  template <class E>
  MatrixOfEach<E> as() const {
    return {static_cast<E* const*>(of_each), static_cast<E*>(const_cast<void*>(first)), distance};
  }
};

/// A number or an address per problem, as a word.
struct WordOfEach {
  const void* of_each = nullptr;  ///< numbers of 32 or, if `is_wide`, 64 bits
  index_t first = 0;              ///< if of_each is null: the value for the first problem,
  index_t distance = 0;           ///< and the difference from one problem to the next
  bool is_wide = false;

  WordOfEach() = default;
  explicit WordOfEach(const NumberOfEach& number)
      : of_each(number.of_each), first(number.of_all), is_wide(number.is_wide) {}
  template <class E>
  explicit WordOfEach(const MatrixOfEach<E>& matrix)
      : of_each(matrix.of_each),
        first(reinterpret_cast<index_t>(matrix.first)),
        distance(matrix.distance * static_cast<index_t>(sizeof(E))),
        is_wide(true) {}

  TESSERA_HOST_DEVICE index_t of(index_t problem) const {
    if (of_each == nullptr) return first + problem * distance;
    return is_wide ? static_cast<const std::int64_t*>(of_each)[problem] : static_cast<const int*>(of_each)[problem];
  }
};

struct Level3Batch {
  /// The variant and the factors. m, n, k are the common sizes, or upper bounds of the sizes in arrays; 0: there is no
  /// bound. Addresses and leading dimensions are not used.
  Level3 common;
  index_t count = 0;
  /// If C is square (updates_triangle()), m is not used.
  NumberOfEach m, n, k, lda, ldb, ldc;
  /// In trsm and trmm X is C, and B is not used.
  UntypedMatrixOfEach A, B, C;
  /// For each problem 0, or minus the position of its first bad argument in the routine's Fortran interface; such a
  /// problem is left out. It lies in device memory, and is as wide as the sizes. nullptr: all problems are good.
  void* info = nullptr;
  /// A problem with a number other than zero is left out: an earlier step of the same call has ended it.
  NumberOfEach left_out = {};

  bool has_sizes_of_each() const { return n.of_each != nullptr; }
};

}  // namespace tessera::kernels
