#include "routines/triangle_homes.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace tessera::routines {
namespace {

constexpr index_t unlimited = std::numeric_limits<index_t>::max();

struct Dealt {
  index_t most_work = unlimited;                  ///< of a device
  index_t lines = unlimited;                      ///< that all devices read
  std::vector<std::vector<std::int32_t>> places;  ///< by device; of tiles, in the list of all

  bool is_better_than(const Dealt& other) const {
    return std::tie(most_work, lines) < std::tie(other.most_work, other.lines);
  }
};

class Dealer {
 public:
  Dealer(const std::vector<TileIndex>& tiles, index_t lines_at_once) : tiles_(tiles), lines_at_once_(lines_at_once) {}

  Dealt deal(std::vector<std::int32_t> places, index_t devices) const {
    if (devices == 1) return {work_of(places), lines_of(places), {std::move(places)}};
    Dealt best;
    for (const Cut cut : {Cut::rows, Cut::columns, Cut::middle_rows, Cut::middle_columns}) {
      sort(places, cut);
      const auto border = places.begin() + border_of(places, devices);
      Dealt dealt = deal({places.begin(), border}, devices / 2);
      Dealt others = deal({border, places.end()}, devices - devices / 2);
      dealt.most_work = std::max(dealt.most_work, others.most_work);
      dealt.lines += others.lines;
      if (!dealt.is_better_than(best)) continue;
      std::move(others.places.begin(), others.places.end(), std::back_inserter(dealt.places));
      best = std::move(dealt);
    }
    return best;
  }

 private:
  enum class Cut : std::uint8_t { rows, columns, middle_rows, middle_columns };

  const TileIndex& tile(std::int32_t place) const { return tiles_[static_cast<std::size_t>(place)]; }
  // A tile on the diagonal is half computed.
  index_t work(std::int32_t place) const { return tile(place).i == tile(place).j ? 1 : 2; }

  index_t work_of(const std::vector<std::int32_t>& places) const {
    index_t sum = 0;
    for (const std::int32_t place : places) sum += work(place);
    return sum;
  }

  void sort(std::vector<std::int32_t>& places, Cut cut) const {
    std::int32_t least = std::numeric_limits<std::int32_t>::max(), most = 0;
    for (const std::int32_t place : places) {
      least = std::min({least, tile(place).i, tile(place).j});
      most = std::max({most, tile(place).i, tile(place).j});
    }
    const std::int32_t middle = least + (most - least + 1) / 2;
    const bool by_middle = cut == Cut::middle_rows || cut == Cut::middle_columns;
    const bool by_rows = cut == Cut::rows || cut == Cut::middle_rows;
    const auto key = [&](std::int32_t place) {
      const auto [i, j] = tile(place);
      return std::tuple(by_middle && (i >= middle) != (j >= middle), by_rows ? i : j, by_rows ? j : i);
    };
    std::sort(places.begin(), places.end(), [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
  }

  /// How many places go to the first half of the devices. A tile on the border goes where most of its work belongs.
  std::ptrdiff_t border_of(const std::vector<std::int32_t>& places, index_t devices) const {
    const index_t all = work_of(places);
    index_t before = 0;
    for (std::size_t count = 0; count < places.size(); ++count) {
      if ((2 * before + work(places[count])) * devices > 2 * all * (devices / 2))
        return static_cast<std::ptrdiff_t>(count);
      before += work(places[count]);
    }
    return static_cast<std::ptrdiff_t>(places.size());
  }

  index_t lines_of(const std::vector<std::int32_t>& places) const {
    std::set<index_t> lines;
    for (const std::int32_t place : places)
      lines.insert({tile(place).i / lines_at_once_, tile(place).j / lines_at_once_});
    return static_cast<index_t>(lines.size());
  }

  const std::vector<TileIndex>& tiles_;
  const index_t lines_at_once_;
};

}  // namespace

std::vector<std::int32_t> homes_of_triangle(const std::vector<TileIndex>& tiles, index_t lines_at_once,
                                            index_t devices) {
  std::vector<std::int32_t> places(tiles.size()), homes(tiles.size());
  for (std::size_t place = 0; place < places.size(); ++place) places[place] = static_cast<std::int32_t>(place);
  const Dealt dealt = Dealer(tiles, lines_at_once).deal(std::move(places), devices);
  for (std::size_t device = 0; device < dealt.places.size(); ++device) {
    for (const std::int32_t place : dealt.places[device])
      homes[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(device);
  }
  return homes;
}

}  // namespace tessera::routines
