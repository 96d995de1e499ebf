// The coherence table exhaustively: every state and every event.
#include "cache/coherence.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace tessera::cache {
namespace coherence_test {

constexpr Coherence invalid{TileState::invalid, 0};
constexpr Coherence exclusive{TileState::exclusive, 1};
constexpr Coherence modified{TileState::modified, 1};
constexpr Coherence shared(int holders) { return {TileState::shared, holders}; }
constexpr Coherence owned(int holders) { return {TileState::owned, holders}; }
constexpr std::optional<Coherence> refused = std::nullopt;

struct Row {
  Coherence now;
  // By event: fetch, copy, drop, write, update, complete, write_back, discard, abandon.
  std::array<std::optional<Coherence>, 9> after;
};

// Columns as the events are listed in coherence.hpp.
constexpr Row table[] = {
    {invalid, {exclusive, refused, refused, modified, refused, refused, refused, invalid, refused}},
    {exclusive, {shared(2), shared(2), invalid, refused, modified, refused, refused, invalid, refused}},
    {shared(2), {shared(3), shared(3), exclusive, refused, modified, refused, refused, invalid, refused}},
    {shared(3), {shared(4), shared(4), shared(2), refused, modified, refused, refused, invalid, refused}},
    {modified, {refused, refused, refused, refused, refused, owned(1), refused, refused, invalid}},
    {owned(1), {refused, owned(2), refused, refused, modified, refused, exclusive, invalid, refused}},
    {owned(2), {refused, owned(3), owned(1), refused, modified, refused, shared(2), invalid, refused}},
    {owned(3), {refused, owned(4), owned(2), refused, modified, refused, shared(3), invalid, refused}},
};

TEST(Coherence, EveryStateAndEvent) {
  for (const Row& row : table) {
    for (std::size_t event = 0; event < row.after.size(); ++event) {
      SCOPED_TRACE(::testing::Message() << "state " << static_cast<int>(row.now.state) << " of " << row.now.holders
                                        << ", event " << event);
      const auto made = static_cast<TileEvent>(event);
      EXPECT_EQ(try_next(row.now, made), row.after[event]);
      if (row.after[event]) {
        EXPECT_EQ(next(row.now, made), *row.after[event]);
      } else {
        EXPECT_THROW(static_cast<void>(next(row.now, made)), InternalError);
      }
    }
  }
}

TEST(Coherence, TheOnlyCopyIsNeverDropped) {
  EXPECT_FALSE(try_next(owned(1), TileEvent::drop));
  EXPECT_FALSE(try_next(modified, TileEvent::drop));
  EXPECT_EQ(try_next(owned(2), TileEvent::drop), owned(1)) << "the peer takes the truth over";
}

TEST(Coherence, ManyHoldersAreLikeThree) {
  for (int holders = 3; holders < 16; ++holders) {
    EXPECT_EQ(next(shared(holders), TileEvent::fetch), shared(holders + 1));
    EXPECT_EQ(next(shared(holders + 1), TileEvent::drop), shared(holders));
    EXPECT_EQ(next(owned(holders), TileEvent::copy), owned(holders + 1));
    EXPECT_EQ(next(owned(holders + 1), TileEvent::drop), owned(holders));
    EXPECT_EQ(next(owned(holders), TileEvent::write_back), shared(holders));
  }
}

}  // namespace coherence_test
}  // namespace tessera::cache
