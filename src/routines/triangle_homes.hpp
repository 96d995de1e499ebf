// The devices at which the tiles of a triangle of C are at home.
#pragma once

#include <cstdint>
#include <vector>

#include "routines/tiling.hpp"

namespace tessera::routines {

/// Deals the tiles of a triangle so that all devices have as much to compute as can be, and read few lines: tile (i, j) reads
/// lines i and j of the operands. Tiles are divided into halves again and again: by a row, by a column, or into those that cross
/// the middle of the diagonal and those that do not. Four devices read 2.5 times what one does then, and 4 times where tiles
/// are dealt in turns.
/// @param lines of tiles, consecutive ones from 0 on, that are fetched as one
/// @return by tile, a device below `devices`
std::vector<std::int32_t> homes_of_triangle(const std::vector<TileIndex>& tiles, index_t lines, index_t devices);

}  // namespace tessera::routines
