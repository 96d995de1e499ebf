// The rule of each routine in each type. A table, so that a call finds its rule with one load.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "calls/routine.hpp"
#include "core/offload_rules.hpp"
#include "core/scalar.hpp"
#include "offload/policy.hpp"

namespace tessera::offload {

class RuleTable {
 public:
  /// Names that no routine has are passed over.
  explicit RuleTable(const OffloadRules& rules) {
    for (auto& of_routine : rules_) of_routine.fill(rules.general);
    for (const auto& [name, rule] : rules.named) {
      for (const RoutineRow& row : routine_rows) {
        for (const ScalarType type : scalar_types) {
          if (is_called(row.routine, type, name)) rules_[number_of(row.routine)][static_cast<std::size_t>(type)] = rule;
        }
      }
    }
  }

  /// Calls of fewer multiply-adds are the CPU's by the rule of any routine.
  index_t least_volume_of_any() const {
    index_t least = tiny_volume;
    for (const auto& of_routine : rules_) {
      for (const OffloadRule& rule : of_routine) {
        if (rule.when == Offload::always) return 0;
        if (rule.when == Offload::by_size) least = std::min(least, rule.least_volume);
      }
    }
    return least;
  }

  const OffloadRule& of(Routine routine, ScalarType type) const {
    return rules_[number_of(routine)][static_cast<std::size_t>(type)];
  }

 private:
  std::array<std::array<OffloadRule, 4>, routine_count> rules_{};
};

}  // namespace tessera::offload
