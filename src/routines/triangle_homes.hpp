// The devices at which the tiles of a triangle of C are at home.
#pragma once

#include <cstdint>
#include <vector>

#include "routines/tiling.hpp"

namespace tessera::routines {

/// Deals the tiles of a triangle so that devices share the work as evenly as possible, and read few lines. Tile (i, j) reads
/// lines i and j of the operands. Tiles are divided into halves of equal work, again and again. They are sorted by rows or by
/// columns, or those beside the middle of the diagonal come first. Four devices read 2.5 times what one does then, and 4 times
/// where tiles are dealt in turns.
/// @param lines_at_once lines of tiles, consecutive ones from 0 on, that are fetched as one
/// @pre devices >= 1
/// @return by tile, a device below `devices`
std::vector<std::int32_t> homes_of_triangle(const std::vector<TileIndex>& tiles, index_t lines_at_once,
                                            index_t devices);

}  // namespace tessera::routines
