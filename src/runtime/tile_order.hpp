// The order in which the tiles of C start: as growing squares, inside strips that fit the device.
//
// With r rows of A and c columns of B on a device, r * c elements of C can be computed: squares earn the most arithmetic per
// byte, and computing starts after a few tiles. If A and B do not fit as a whole, C is cut into strips of tile rows whose part of
// A does fit and stays, while the columns of B pass by once per strip; odd strips run backwards, so that the columns used last are
// used first again.
#pragma once

#include <cstdint>
#include <vector>

#include "core/scalar.hpp"

namespace tessera::runtime {

struct TileIndex {
  std::int32_t i = 0;
  std::int32_t j = 0;
  bool operator==(const TileIndex&) const = default;
};

/// All mt x nt tiles of tile_m x tile_n elements as growing squares (of elements, whatever the shape of the tiles): shell by shell,
/// within a shell the new row and the new column in turns.
std::vector<TileIndex> square_order(index_t mt, index_t nt, index_t tile_m, index_t tile_n);

/// All mt x nt tiles, column by column within strips of `strip` tile rows.
std::vector<TileIndex> strip_order(index_t mt, index_t nt, index_t strip);

}  // namespace tessera::runtime
