// What TESSERA_OFFLOAD says of each routine in each precision. A table, so that a call finds its rule with one load.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "core/any_routine.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// automatic: where a call is estimated to end sooner; by_size: devices from a volume on.
enum class Offload : std::uint8_t { automatic, always, never, by_size };

struct OffloadRule {
  Offload when = Offload::automatic;
  index_t least_volume = 0;  ///< for by_size: devices from this m * n * k on

  bool operator==(const OffloadRule&) const = default;
};

class OffloadRules {
 public:
  const OffloadRule& of(AnyRoutine routine, ScalarType type) const {
    return rules_[routine.number()][static_cast<std::size_t>(type)];
  }
  /// For whatever has no rule of its own.
  const OffloadRule& general() const { return general_; }

  void set_all(OffloadRule rule) {
    general_ = rule;
    for (auto& of_routine : rules_) of_routine.fill(rule);
  }

  /// @param name a routine in all its types ("trsm"; "syevd" or "heevd") or in one ("dtrsm")
  /// @return false if there is no such routine
  bool set(std::string_view name, OffloadRule rule) {
    bool found = false;
    for (int number = 0; number < any_routine_count; ++number) {
      const AnyRoutine routine = AnyRoutine::of(number);
      for (const ScalarType type : scalar_types) {
        const bool one = routine.exists_in(type) && !name.empty() && name.front() == letter(type) &&
                         name.substr(1) == routine.name(type);
        if (!one && name != routine.name(ScalarType::d) && name != routine.name(ScalarType::z)) continue;
        rules_[routine.number()][static_cast<std::size_t>(type)] = rule;
        found = true;
      }
    }
    return found;
  }

  /// Whether `predicate` holds for the rule of some routine.
  template <class Predicate>
  bool any(Predicate predicate) const {
    return std::any_of(rules_.begin(), rules_.end(), [&](const auto& of_routine) {
      return std::any_of(of_routine.begin(), of_routine.end(), predicate);
    });
  }
  /// No call ever goes to a device.
  bool never() const {
    return !any([](const OffloadRule& rule) { return rule.when != Offload::never; });
  }
  /// Some call is weighed by the cost model.
  bool weighs() const {
    return any([](const OffloadRule& rule) { return rule.when == Offload::automatic; });
  }

 private:
  OffloadRule general_;
  std::array<std::array<OffloadRule, 4>, any_routine_count> rules_{};
};

}  // namespace tessera
