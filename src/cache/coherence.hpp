// The coherence of one version of a tile over all devices and host memory, as a pure table.
//
// A tile has versions: 0 is what host memory held when the job began, and each writer makes the next. The state of a
// version says which memories hold it, in the words of MOESI (Sweazey and Smith 1986). Invalid, Exclusive, Shared and
// Modified are those of BLASX's MESI-X (section IV-B, Fig. 3), in which Modified could end only in host memory:
//   Invalid    no device; host memory has it
//   Exclusive  one device and host memory
//   Shared     several devices and host memory
//   Modified   one device, which writes it; no task reads it
//   Owned      it is complete; one or several devices have it, and host memory is stale
// The directory, its only caller, knows which version is which.
#pragma once

#include <cstdint>
#include <optional>

#include "core/error.hpp"

namespace tessera::cache {

enum class TileState : std::uint8_t { invalid, exclusive, shared, modified, owned };

enum class TileEvent : std::uint8_t {
  fetch,       ///< one more device gets it from host memory
  copy,        ///< one more device gets it from a device that has it
  drop,        ///< a device gives up its copy; never the only copy
  write,       ///< a device begins to write it, in a place of its own
  update,      ///< the only writer makes the next version in place of this one; all devices lose this one
  complete,    ///< it is complete
  write_back,  ///< it is complete in host memory, too
  discard,     ///< no task needs it: the next version has replaced it
  abandon      ///< the device that writes it, in a place of its own, gives it up
};

struct Coherence {
  TileState state = TileState::invalid;
  int holders = 0;
  bool operator==(const Coherence&) const = default;
};

/// Whether host memory has the version in this state.
constexpr Coherence clean(int holders) {
  return {holders == 0 ? TileState::invalid : holders == 1 ? TileState::exclusive : TileState::shared, holders};
}

/// The state of a version after an event; for `update`, the state of the next version. Nothing if the protocol has no
/// such transition.
constexpr std::optional<Coherence> try_next(Coherence now, TileEvent event) {
  const bool modified = now.state == TileState::modified;
  const bool owned = now.state == TileState::owned;
  const auto held_by = [&](int holders) { return owned ? Coherence{TileState::owned, holders} : clean(holders); };
  switch (event) {
    case TileEvent::fetch:
      if (!modified && !owned) return clean(now.holders + 1);
      break;
    case TileEvent::copy:
      if (!modified && now.holders > 0) return held_by(now.holders + 1);
      break;
    case TileEvent::drop:
      if (!modified && now.holders > (owned ? 1 : 0)) return held_by(now.holders - 1);
      break;
    case TileEvent::write:
      if (now == Coherence{}) return Coherence{TileState::modified, 1};
      break;
    case TileEvent::update:
      if (!modified && now.holders > 0) return Coherence{TileState::modified, 1};
      break;
    case TileEvent::complete:
      if (modified) return Coherence{TileState::owned, 1};
      break;
    case TileEvent::write_back:
      if (owned) return clean(now.holders);
      break;
    case TileEvent::discard:
      if (!modified) return Coherence{};
      break;
    case TileEvent::abandon:
      if (modified) return Coherence{};
      break;
  }
  return std::nullopt;
}

/// @throws InternalError if the protocol has no such transition
constexpr Coherence next(Coherence now, TileEvent event) {
  if (const auto after = try_next(now, event)) return *after;
  throw InternalError("cache: the coherence protocol has no such transition");
}

}  // namespace tessera::cache
