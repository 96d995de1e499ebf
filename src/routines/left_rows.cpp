#include "routines/left_rows.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "core/at_end.hpp"
#include "core/side_by_side.hpp"

namespace tessera::routines {
namespace {

using kernels::Panel;

/// Panels whose interchanges move rows at once while devices work, of so many that are still to come. Fewer move the
/// same columns more often, more leave more to the end: half of the rest moves them one and a half times.
constexpr index_t panels_at_once(index_t left) { return std::max<index_t>(left / 2, 2); }
/// A thread takes some ten microseconds to start, in which so many bytes move.
constexpr double bytes_of_thread = 4 << 20;

/// Columns from a row on.
template <Scalar T>
T* rows_of(const Panel& panel, index_t below, index_t column) {
  return static_cast<T*>(panel.A) + below + column * panel.lda;
}

/// Rows that move all at once, which is quicker than one interchange after the other.
template <Scalar T>
void move_rows(T* rows, index_t ld, index_t columns, const std::vector<index_t>& sources) {
  std::vector<T> moved(sources.size());
  for (index_t j = 0; j < columns; ++j) {
    T* const column = rows + j * ld;
    std::transform(sources.begin(), sources.end(), moved.begin(), [column](index_t from) { return column[from]; });
    std::copy(moved.begin(), moved.end(), column);
  }
}

/// Takes no memory.
template <Scalar T>
void move_back(T* rows, index_t ld, index_t columns, const Panel& by) {
  const std::int32_t* const pivots = kernels::pivot_tail(by).pivots;
  for (index_t j = 0; j < columns; ++j) {
    for (index_t i = by.n - 1; i >= 0; --i) std::swap(rows[j * ld + i], rows[j * ld + pivots[i] - 1]);
  }
}

}  // namespace

LeftRows::LeftRows(std::vector<Panel> panels, int processors)
    : panels_(std::move(panels)), processors_(static_cast<std::size_t>(std::max(processors, 1))) {
  constexpr index_t most_columns = 32;
  double bytes = 0;
  for (index_t number = 0; number + 1 < panel_count(); ++number) {  // no panel is to the right of the last one
    const Panel& own = panel(number);
    for (index_t column = 0; column < own.n; column += most_columns)
      pieces_.push_back({number, column, std::min(most_columns, own.n - column), number + 1});
    bytes += static_cast<double>((own.m - own.n) * own.n) * static_cast<double>(element_bytes(own.type));
  }
  // The other processors are left to the program, and to threads that launch kernels.
  threads_ = std::min(static_cast<std::size_t>(bytes / bytes_of_thread), (3 * processors_ + 4) / 8);
  constexpr index_t fewest_panels = 6;
  if (panel_count() < fewest_panels) threads_ = 0;
}

/// By row from the first one of panel `begin` on: which of these rows its elements come from, after the interchanges of
/// panels [begin, end).
std::vector<index_t> LeftRows::sources_of_rows(index_t begin, index_t end) const {
  std::vector<index_t> sources(static_cast<std::size_t>(panel(begin).m));
  std::iota(sources.begin(), sources.end(), index_t{0});
  for (index_t number = begin; number < end; ++number) {
    index_t* const rows = sources.data() + rows_between(begin, number);
    const std::int32_t* const pivots = kernels::pivot_tail(panel(number)).pivots;
    for (index_t i = 0; i < panel(number).n; ++i) std::swap(rows[i], rows[pivots[i] - 1]);
  }
  return sources;
}

// The one that most panels have not moved yet.
LeftRows::Piece* LeftRows::take(const IsHome& is_home) {
  const LockGuard lock(mutex_);
  while (home_ < panel_count() && is_home(home_)) ++home_;
  const index_t least_panels = home_ < panel_count() ? panels_at_once(panel_count() - home_) : 1;
  Piece* most = nullptr;
  for (Piece& piece : pieces_) {
    if (piece.panel >= home_) break;
    if (piece.moving_to == 0 && home_ - piece.moved >= least_panels && (most == nullptr || piece.moved < most->moved))
      most = &piece;
  }
  if (most != nullptr) most->moving_to = home_;
  return most;
}

runtime::WrittenArea LeftRows::move(Piece& piece) {
  const AtEnd at_end([&] {
    const LockGuard lock(mutex_);
    piece.moving_to = 0;
  });
  const Panel& own = panel(piece.panel);
  const index_t below = rows_between(piece.panel, piece.moved), rows = panel(piece.moved).m;
  const std::vector<index_t> sources = sources_of_rows(piece.moved, piece.moving_to);
  const auto element = static_cast<index_t>(element_bytes(own.type));
  dispatch(own.type,
           [&]<Scalar T>(T) { move_rows(rows_of<T>(own, below, piece.column), own.lda, piece.columns, sources); });
  piece.moved = piece.moving_to;
  return {{static_cast<std::byte*>(own.A) + (below + piece.column * own.lda) * element, own.lda * element},
          {rows * element, piece.columns}};
}

std::optional<runtime::WrittenArea> LeftRows::do_some(const IsHome& is_home) {
  Piece* const piece = take(is_home);
  return piece != nullptr ? std::optional(move(*piece)) : std::nullopt;
}

void LeftRows::undo() noexcept {
  const LockGuard lock(mutex_);
  for (Piece& piece : pieces_) {
    const Panel& own = panel(piece.panel);
    for (; piece.moved > piece.panel + 1; --piece.moved) {
      const index_t by = piece.moved - 1, below = rows_between(piece.panel, by);
      dispatch(own.type, [&]<Scalar T>(T) {
        move_back(rows_of<T>(own, below, piece.column), own.lda, piece.columns, panel(by));
      });
    }
  }
  home_ = 0;
}

void LeftRows::finish() {
  std::size_t count = 0;
  {
    const LockGuard lock(mutex_);
    count = pieces_.size();
  }
  if (count == 0) return;
  side_by_side(std::min(processors_, count), [this](std::size_t) {
    while (do_some([](runtime::TaskId) { return true; })) {
    }
  });
}

}  // namespace tessera::routines
