#include "runtime/tile_order.hpp"

#include <algorithm>
#include <tuple>

namespace tessera::runtime {
namespace {

std::vector<TileIndex> with_room_for(index_t mt, index_t nt) {
  std::vector<TileIndex> order;
  order.reserve(static_cast<std::size_t>(mt * nt));
  return order;
}

}  // namespace

std::vector<TileIndex> square_order(index_t mt, index_t nt, index_t tile_m, index_t tile_n) {
  std::vector<TileIndex> order = with_room_for(mt, nt);
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

std::vector<TileIndex> strip_order(index_t mt, index_t nt, index_t strip) {
  std::vector<TileIndex> order = with_room_for(mt, nt);
  bool backwards = false;
  for (index_t top = 0; top < mt; top += strip, backwards = !backwards) {
    for (index_t column = 0; column < nt; ++column) {
      const index_t j = backwards ? nt - 1 - column : column;
      for (index_t i = top; i < std::min(mt, top + strip); ++i) {
        order.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(j)});
      }
    }
  }
  return order;
}

}  // namespace tessera::runtime
