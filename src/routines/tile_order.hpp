// The order in which the tiles of C start where A and B fit the device: as growing squares. Where they do not, see grouping.hpp.
//
// With r rows of A and c columns of B on a device, r * c elements of C can be computed: squares earn the most arithmetic per
// byte, and computing starts after a few tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "core/scalar.hpp"

namespace tessera::routines {

struct TileIndex {
  std::int32_t i = 0;
  std::int32_t j = 0;
  bool operator==(const TileIndex&) const = default;
};

/// All mt x nt tiles of tile_m x tile_n elements as growing squares (of elements, whatever the shape of the tiles): shell by shell,
/// within a shell the new row and the new column in turns.
std::vector<TileIndex> square_order(index_t mt, index_t nt, index_t tile_m, index_t tile_n);

}  // namespace tessera::routines
