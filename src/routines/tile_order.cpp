#include "routines/tile_order.hpp"

#include <algorithm>
#include <tuple>

namespace tessera::routines {
std::vector<TileIndex> square_order(index_t mt, index_t nt, index_t tile_m, index_t tile_n) {
  std::vector<TileIndex> order;
  order.reserve(static_cast<std::size_t>(mt * nt));
  for (index_t j = 0; j < nt; ++j) {
    for (index_t i = 0; i < mt; ++i) order.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(j)});
  }
  const auto position = [&](const TileIndex& tile) {
    const index_t row = tile.i * tile_m;
    const index_t column = tile.j * tile_n;
    return std::tuple(std::max(row, column), std::min(row, column), row);
  };
  std::sort(order.begin(), order.end(),
            [&](const TileIndex& a, const TileIndex& b) { return position(a) < position(b); });
  return order;
}

}  // namespace tessera::routines
