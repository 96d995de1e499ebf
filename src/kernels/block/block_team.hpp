// Thread blocks that compute one problem together. All of them run at the same time, and meet in global memory.
//
// Each block has two marks, for odd and even meetings. A block that is one meeting ahead writes its other mark, so none
// is overwritten that others still wait for. Offers lie in two places for the same reason.
#pragma once

#include <cstddef>

#include "kernels/block/device_code.hpp"
#include "kernels/block/solved_blocks.hpp"

namespace tessera::kernels::block {

// Besides the members of lu_panel.hpp the Machine of a team has
//   int block(), blocks()         its block's number in the team, and how many there are
//   void meet_blocks()            all of all blocks; earlier writes to global memory become visible
//   void meet_first_warps()       the same of each block's first warp only
//   Offer* offers<Offer>()        memory of one offer per block, at the same place for all blocks until the meeting
//                                 after the next one

inline constexpr int most_blocks_of_team = 128;
inline constexpr std::size_t most_offer_bytes = 640;

/// In global memory, with marks of earlier launches or zeros.
struct TeamBoard {
  Mark marks[2][most_blocks_of_team];
  alignas(16) unsigned char offers[2][most_blocks_of_team * most_offer_bytes];
};

struct AddElements {
  template <class E>
  TESSERA_DEVICE void operator()(E& a, const E& b) const {
    TESSERA_UNROLL
    for (int p = 0; p < E::part_count; ++p) a.part[p] += b.part[p];
  }
};

/// Combines value(i), of global memory, for i = begin, begin + step, ... below `end`. Several are loaded at once, since
/// each takes long.
template <class E, class Value, class Combine>
TESSERA_DEVICE E combined(int begin, int end, int step, Value value, Combine combine) {
  constexpr int at_once = 8;
  E all{};
  TESSERA_NO_UNROLL
  for (int i = begin; i < end; i += at_once * step) {
    E values[at_once];
    TESSERA_UNROLL
    for (int u = 0; u < at_once; ++u) values[u] = i + u * step < end ? value(i + u * step) : E{};
    TESSERA_UNROLL
    for (int u = 0; u < at_once; ++u) combine(all, values[u]);
  }
  return all;
}

/// The meetings of a team, as a thread of a block's first warp sees them.
class TeamMeetings {
 public:
  /// @param before the last mark of earlier launches
  TESSERA_DEVICE TeamMeetings(TeamBoard* board, Mark before) : board_(board), next_(before + 1) {}

  template <class Offer>
  TESSERA_DEVICE Offer* offers() const {
    static_assert(sizeof(Offer) <= most_offer_bytes);
    return reinterpret_cast<Offer*>(board_->offers[next_ % 2]);
  }
  /// @pre all of the warp
  template <class Machine>
  TESSERA_DEVICE void meet(Machine& machine) {
    Mark* const marks = board_->marks[next_ % 2];
    machine.set_mark(marks + machine.block(), next_);
    for (int seen = 0; seen < machine.blocks();) {
      const int left = machine.blocks() - seen;
      seen += machine.marks_set(marks + seen, left < 32 ? left : 32, next_);
    }
    ++next_;
  }

 private:
  TeamBoard* board_;
  Mark next_;
};

}  // namespace tessera::kernels::block
