// Any routine that there are rules, rates and counters of: Level 3, batches of LAPACK's, and single calls of these.
#pragma once

#include <cstddef>

#include "core/lapack.hpp"
#include "core/lapack_call.hpp"
#include "core/level3.hpp"

namespace tessera {

/// geqrf, the one that has no batches, comes last.
inline constexpr int any_routine_count = routine_count + lapack_routine_count + 1;

class AnyRoutine {
 public:
  constexpr AnyRoutine(Routine routine) : number_(static_cast<int>(routine)) {}  // NOLINT(google-explicit-constructor)
  constexpr AnyRoutine(LapackRoutine routine)                                    // NOLINT(google-explicit-constructor)
      : number_(routine_count + static_cast<int>(routine)) {}
  constexpr AnyRoutine(LapackCallRoutine routine)  // NOLINT(google-explicit-constructor)
      : number_(batched(routine) ? AnyRoutine(*batched(routine)).number_ : any_routine_count - 1) {}
  /// @pre number < any_routine_count
  static constexpr AnyRoutine of(int number) {
    if (number == any_routine_count - 1) return LapackCallRoutine::geqrf;
    return number < routine_count ? AnyRoutine(static_cast<Routine>(number))
                                  : AnyRoutine(static_cast<LapackRoutine>(number - routine_count));
  }

  constexpr std::size_t number() const { return static_cast<std::size_t>(number_); }
  constexpr bool is_lapack() const { return number_ >= routine_count; }
  constexpr bool exists_in(ScalarType type) const { return is_lapack() || exists(static_cast<Routine>(number_), type); }
  constexpr const char* name() const {
    if (number_ == any_routine_count - 1) return name_of(LapackCallRoutine::geqrf);
    return is_lapack() ? name_of(static_cast<LapackRoutine>(number_ - routine_count))
                       : name_of(static_cast<Routine>(number_));
  }

 private:
  int number_;
};

}  // namespace tessera
