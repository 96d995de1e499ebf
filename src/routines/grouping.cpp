#include "routines/grouping.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace tessera::routines {
namespace {

constexpr index_t results_under_way = 4;  // on their way down while the next group starts
constexpr index_t most_arriving = 8;      // beyond it more lookahead gains nothing

index_t parts(index_t size, index_t part) { return (size + part - 1) / part; }

struct Range {
  index_t first, end;
};

index_t common(Range a, Range b) { return std::max<index_t>(0, std::min(a.end, b.end) - std::max(a.first, b.first)); }

Range rows(const TileGroup& g) { return {g.row, g.row + g.rows}; }
Range cols(const TileGroup& g) { return {g.col, g.col + g.cols}; }

// The rows of the one operand of a rank update that a group reads, as two ranges without common rows.
struct RowsRead {
  Range parts[2];
};

RowsRead rows_read(const TileGroup& g) {
  // Columns past the last row have no tile in the triangle; those among the rows are counted with them.
  return {{rows(g), {g.col, std::min(g.col + g.cols, std::max(g.row, g.col))}}};
}

index_t common(const RowsRead& a, const RowsRead& b) {
  index_t sum = 0;
  for (const Range& x : a.parts) {
    for (const Range& y : b.parts) sum += common(x, y);
  }
  return sum;
}

// The columns of the second operand that a group of the lower triangle reads.
Range cols_read(const TileGroup& g) { return {g.col, std::min(g.col + g.cols, g.row + g.rows)}; }

// Tiles of the triangle in rows [first, end).
index_t triangle_rows(Range r) { return (r.end * (r.end + 1) - r.first * (r.first + 1)) / 2; }

index_t needed(const GroupedProduct& p, const TileGroup& g) {
  switch (p.form) {
    case GroupForm::rectangle:
      return (g.rows + g.cols) * p.kt;
    case GroupForm::triangle: {
      const RowsRead read = rows_read(g);
      return common(read, read) * p.kt;
    }
    case GroupForm::masked:
      return (g.rows + cols_read(g).end - g.col) * p.kt;
    case GroupForm::sweep:
      break;
  }
  return triangle_rows(rows(g)) + g.cols * (g.row + g.rows);
}

index_t needed_by_both(const GroupedProduct& p, const TileGroup& a, const TileGroup& b) {
  const index_t same_rows = common(rows(a), rows(b));
  const index_t same_cols = common(cols(a), cols(b));
  switch (p.form) {
    case GroupForm::rectangle:
      return (same_rows + same_cols) * p.kt;
    case GroupForm::triangle:
      return common(rows_read(a), rows_read(b)) * p.kt;
    case GroupForm::masked:
      return (same_rows + common(cols_read(a), cols_read(b))) * p.kt;
    case GroupForm::sweep:
      break;
  }
  return (same_rows > 0 ? triangle_rows(rows(b)) : 0) + same_cols * std::min(a.row + a.rows, b.row + b.rows);
}

// Sizes that cut `count` tiles into parts as equal as can be, one for each number of parts.
std::vector<index_t> sizes(index_t count) {
  std::vector<index_t> result;
  for (index_t n = 1; n <= count; ++n) {
    const index_t size = parts(count, n);
    if (result.empty() || result.back() != size) result.push_back(size);
  }
  return result;
}

// Whether devices that draw groups by demand end at about the same time.
bool balanced(const GroupedProduct& p, const Grouping& g, int devices) {
  if (devices == 1) return true;
  // Groups of a sweep wait for those of the same lines: only the lines side by side are work for several devices.
  const index_t lines = parts(p.nt, g.cols);
  const index_t strips = parts(p.mt, g.rows);
  const index_t groups = p.form == GroupForm::rectangle ? strips * lines
                         : p.form == GroupForm::sweep   ? lines
                                                        : static_cast<index_t>(groups_of(p, g).size());
  return 5 * parts(groups, devices) * devices <= 6 * groups;
}

}  // namespace

std::vector<TileGroup> groups_of(const GroupedProduct& product, const Grouping& grouping) {
  const bool columns = grouping.column_strips;
  const index_t strips = columns ? parts(product.nt, grouping.cols) : parts(product.mt, grouping.rows);
  const index_t length = columns ? parts(product.mt, grouping.rows) : parts(product.nt, grouping.cols);
  std::vector<TileGroup> result;
  bool backwards = false;
  for (index_t strip = 0; strip < strips; ++strip, backwards = !backwards) {
    for (index_t step = 0; step < length; ++step) {
      const index_t place = backwards ? length - 1 - step : step;
      const index_t row = (columns ? place : strip) * grouping.rows;
      const index_t col = (columns ? strip : place) * grouping.cols;
      const TileGroup group{row, col, std::min(grouping.rows, product.mt - row),
                            std::min(grouping.cols, product.nt - col)};
      const bool lower = product.form == GroupForm::triangle || product.form == GroupForm::masked;
      if (lower && group.col >= group.row + group.rows) continue;
      result.push_back(group);
    }
  }
  return result;
}

index_t kept_tiles(const Grouping& grouping, index_t slots) {
  const index_t outputs = grouping.rows * grouping.cols;
  const index_t inputs = grouping.rows + grouping.cols;
  return slots - outputs - std::min(outputs, results_under_way) - inputs - std::min(inputs, most_arriving);
}

index_t up_tiles(const GroupedProduct& product, const Grouping& grouping, index_t slots) {
  const index_t kept = kept_tiles(grouping, slots);
  index_t sum = 0;
  const TileGroup* before = nullptr;
  const std::vector<TileGroup> groups = groups_of(product, grouping);
  for (const TileGroup& group : groups) {
    sum += needed(product, group);
    if (before != nullptr) sum -= std::min(kept, needed_by_both(product, *before, group));
    before = &group;
  }
  return sum;
}

Grouping choose_grouping(const GroupedProduct& product, index_t slots, int devices) {
  struct Candidate {
    Grouping grouping;
    index_t up = 0;
    index_t outputs() const { return grouping.rows * grouping.cols; }
    // Tiles that the link has to bring per product while nothing is kept: at most about a half, or the group waits for
    // them.
    double arriving() const {
      return std::max(0.5, static_cast<double>(grouping.rows + grouping.cols) / static_cast<double>(outputs()));
    }
  };
  std::vector<Candidate> candidates;
  struct Wish {
    int devices;
    index_t cols;
  };
  const index_t fewest_cols = std::min(product.fewest_cols, product.nt);
  for (const Wish wish : {Wish{devices, fewest_cols}, Wish{1, fewest_cols}, Wish{1, 1}}) {
    for (const index_t rows : sizes(product.mt)) {
      for (const index_t cols : sizes(product.nt)) {
        for (const bool column_strips : {false, true}) {
          const Grouping grouping{rows, cols, column_strips};
          // The groups of a sweep go row by row, because those of the same lines depend on each other.
          if (product.form == GroupForm::sweep && column_strips) continue;
          if (cols < wish.cols || kept_tiles(grouping, slots) < 0) continue;
          if (!balanced(product, grouping, wish.devices)) continue;
          candidates.push_back({grouping, up_tiles(product, grouping, slots)});
        }
      }
    }
    if (!candidates.empty()) break;
  }
  index_t least = std::numeric_limits<index_t>::max();
  for (const Candidate& c : candidates) least = std::min(least, c.up);
  // Among cuts that move about the same, small groups: their results go down while others are computed.
  std::erase_if(candidates, [&](const Candidate& c) { return 50 * c.up > 51 * least; });
  const auto best = std::min_element(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.arriving(), a.outputs(), a.up) < std::tuple(b.arriving(), b.outputs(), b.up);
  });
  return best == candidates.end() ? Grouping{} : best->grouping;
}

}  // namespace tessera::routines
