// MESI-X, the coherence of tiles over all devices, as a pure table (BLASX, section IV-B, Fig. 3).
//
// A tile is Invalid if no device tracks it, Exclusive if one does, Shared if several do, Modified if a device writes it.
// Modified is ephemeral: the only way out is the write-back to host memory, to Invalid, or to Exclusive where the routine will
// read the result again. Modified implies a sole holder.
#pragma once

#include <cstdint>

#include "core/error.hpp"

namespace tessera::cache {

enum class TileState : std::uint8_t { invalid, exclusive, shared, modified };

enum class TileEvent : std::uint8_t {
  fetch,           ///< one more device gets a copy
  drop,            ///< a device gives its copy up
  write,           ///< a device becomes the writer; it is the only holder or there was none
  write_back,      ///< the result is in host memory and leaves the device
  write_back_keep  ///< the result is in host memory and stays readable on the device
};

struct Coherence {
  TileState state = TileState::invalid;
  int holders = 0;
  bool operator==(const Coherence&) const = default;
};

/// The state in which `holders` devices merely read a tile.
constexpr TileState reading_state(int holders) {
  return holders == 0 ? TileState::invalid : holders == 1 ? TileState::exclusive : TileState::shared;
}

/// @throws InternalError where the protocol has no such transition
constexpr Coherence next(Coherence now, TileEvent event) {
  const auto readers = [](int holders) { return Coherence{reading_state(holders), holders}; };
  const bool modified = now.state == TileState::modified;
  switch (event) {
    case TileEvent::fetch:
      if (!modified) return readers(now.holders + 1);
      break;
    case TileEvent::drop:
      if (!modified && now.holders > 0) return readers(now.holders - 1);
      break;
    case TileEvent::write:
      if (!modified && now.holders <= 1) return {TileState::modified, 1};
      break;
    case TileEvent::write_back:
      if (modified) return readers(0);
      break;
    case TileEvent::write_back_keep:
      if (modified) return readers(1);
      break;
  }
  throw InternalError("cache: the coherence protocol has no such transition");
}

}  // namespace tessera::cache
