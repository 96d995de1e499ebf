// Any routine that there are rules, rates and counters of: Level 3, batches of LAPACK's, single calls of these, and problems
// that a device solves whole.
#pragma once

#include <cstddef>

#include "core/dense_problem.hpp"
#include "core/lapack.hpp"
#include "core/lapack_call.hpp"
#include "core/level3.hpp"

namespace tessera {

/// Behind those of batches: geqrf, which has none, and problems that are solved whole, but for the last, getri and potri, which have.
inline constexpr int first_dense_number = routine_count + lapack_routine_count + 1;
inline constexpr int any_routine_count = first_dense_number + dense_routine_count - 2;

class AnyRoutine {
 public:
  constexpr AnyRoutine(Routine routine) : number_(static_cast<int>(routine)) {}  // NOLINT(google-explicit-constructor)
  constexpr AnyRoutine(LapackRoutine routine)                                    // NOLINT(google-explicit-constructor)
      : number_(routine_count + static_cast<int>(routine)) {}
  constexpr AnyRoutine(LapackCallRoutine routine)  // NOLINT(google-explicit-constructor)
      : number_(batched(routine) ? AnyRoutine(*batched(routine)).number_ : first_dense_number - 1) {}
  constexpr AnyRoutine(DenseRoutine routine)  // NOLINT(google-explicit-constructor)
      : number_(routine == DenseRoutine::potri   ? AnyRoutine(LapackRoutine::potri).number_
                : routine == DenseRoutine::getri ? AnyRoutine(LapackRoutine::getri).number_
                                                 : first_dense_number + static_cast<int>(routine)) {}
  /// @pre number < any_routine_count
  static constexpr AnyRoutine of(int number) {
    if (number >= first_dense_number) return static_cast<DenseRoutine>(number - first_dense_number);
    if (number == first_dense_number - 1) return LapackCallRoutine::geqrf;
    return number < routine_count ? AnyRoutine(static_cast<Routine>(number))
                                  : AnyRoutine(static_cast<LapackRoutine>(number - routine_count));
  }

  constexpr std::size_t number() const { return static_cast<std::size_t>(number_); }
  constexpr bool is_lapack() const { return number_ >= routine_count; }
  constexpr bool exists_in(ScalarType type) const { return is_lapack() || exists(static_cast<Routine>(number_), type); }
  /// Without the letter of the type, by which some of LAPACK's differ: syevd, heevd.
  constexpr const char* name(ScalarType type = ScalarType::d) const {
    if (number_ >= first_dense_number) return name_of(static_cast<DenseRoutine>(number_ - first_dense_number), type);
    if (number_ == first_dense_number - 1) return name_of(LapackCallRoutine::geqrf);
    return is_lapack() ? name_of(static_cast<LapackRoutine>(number_ - routine_count))
                       : name_of(static_cast<Routine>(number_));
  }

 private:
  int number_;
};

static_assert(static_cast<int>(DenseRoutine::getri) == dense_routine_count - 2 &&
              static_cast<int>(DenseRoutine::potri) == dense_routine_count - 1);

}  // namespace tessera
