// The rules of TESSERA_OFFLOAD by the names of routines. offload/rule_table.hpp makes a table of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/scalar.hpp"

namespace tessera {

/// automatic: where the cost model expects the call to end sooner; by_size: on devices from a volume on.
enum class Offload : std::uint8_t { automatic, always, never, by_size };

struct OffloadRule {
  Offload when = Offload::automatic;
  index_t least_volume = 0;  ///< for by_size: devices from this m * n * k on

  bool operator==(const OffloadRule&) const = default;
};

struct OffloadRules {
  OffloadRule general;  ///< for routines without a rule of their own
  /// A routine in all its types ("trsm") or in one ("dtrsm"), and its rule. Of several for one routine the last counts.
  std::vector<std::pair<std::string, OffloadRule>> named;

  /// Whether some rule is `when`.
  bool any(Offload when) const {
    return general.when == when ||
           std::any_of(named.begin(), named.end(), [when](const auto& rule) { return rule.second.when == when; });
  }
  /// No call ever goes to a device.
  bool never() const { return !any(Offload::automatic) && !any(Offload::always) && !any(Offload::by_size); }
  /// Some call is weighed by the cost model.
  bool weighs() const { return any(Offload::automatic); }
};

}  // namespace tessera
