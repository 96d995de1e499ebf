// The rule of each routine in each type. A table, so that a call finds its rule with one load.
#pragma once

#include <array>
#include <cstddef>

#include "calls/routine.hpp"
#include "core/offload_rules.hpp"
#include "core/scalar.hpp"

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

  const OffloadRule& of(Routine routine, ScalarType type) const {
    return rules_[number_of(routine)][static_cast<std::size_t>(type)];
  }

 private:
  std::array<std::array<OffloadRule, 4>, routine_count> rules_{};
};

}  // namespace tessera::offload
