// The cut of a call whose operands do not fit the device: groups of neighbouring tiles of C whose tasks advance
// together, step by step.
//
// A group of r x c tiles needs, per step, r tiles of one operand and c of the other, and makes r * c products of them.
// Large groups earn most products per tile that crosses the link, but their outputs take memory. Slots that are left
// keep what the next group needs again. The extremes are a group of one tile row and a strip of A that stays, and a
// group that fills the memory with C. The traffic of each cut between them is counted, and the least is taken:
//
//   F = slots - r c (outputs) - min(r c, 4) (results on their way down) - (r + c) (inputs in use) - min(r + c, 8) (arriving)
//   up = sum over groups of: tiles that the group needs - min(F, those of them that the group before it needed)
//
// For a cube of N^3 tile products and S slots, r = c = sqrt(S) gives 2 N^3 / sqrt(S), strips of S/N rows give N^2 + N^4
// / S: never less. Pure arithmetic on tile counts. Source: Hong and Kung 1981 for the bound; BLASX, section IV-C, for
// groups as squares of C.
#pragma once

#include <cstdint>
#include <vector>

#include "core/scalar.hpp"

namespace tessera::routines {

enum class GroupForm : std::uint8_t {
  rectangle,  ///< C is m x n, made of an m x k and a k x n operand
  triangle,   ///< only the lower tiles of C; both factors are rows of the same operand
  masked,     ///< only the lower tiles of C, made of an m x k and a k x n operand
  sweep  ///< C is m lines long and n lines wide; row p is made of rows 0..p of C itself and of p + 1 tiles of a triangle
};

struct GroupedProduct {
  GroupForm form = GroupForm::rectangle;
  index_t mt = 0, nt = 0, kt = 0;  ///< tiles
  index_t fewest_cols = 1;         ///< of a group, if they fit: where tasks of one column wait for each other
};

/// Groups of rows x cols tiles, in strips of tile rows (or of tile columns) whose direction alternates.
struct Grouping {
  index_t rows = 1, cols = 1;
  bool column_strips = false;
  bool operator==(const Grouping&) const = default;
};

struct TileGroup {
  index_t row = 0, col = 0, rows = 0, cols = 0;
  bool operator==(const TileGroup&) const = default;
};

/// All groups of the product in their order.
std::vector<TileGroup> groups_of(const GroupedProduct& product, const Grouping& grouping);

/// Slots that keep tiles from one group to the next; negative: such groups do not fit.
index_t kept_tiles(const Grouping& grouping, index_t slots);

/// Input tiles that cross the link, old values of C not counted except where C is an operand. @pre kept_tiles() >= 0
index_t up_tiles(const GroupedProduct& product, const Grouping& grouping, index_t slots);

/// The grouping that moves the fewest tiles, of those that give each of the devices about the same number of groups.
/// @pre slots >= 6: a group of one tile fits
Grouping choose_grouping(const GroupedProduct& product, index_t slots, int devices);

}  // namespace tessera::routines
