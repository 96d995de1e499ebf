// The coherence table exhaustively, against MESI-X as it is drawn in BLASX, Fig. 3.
#include "cache/coherence.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace tessera::cache {
namespace {

constexpr Coherence invalid{TileState::invalid, 0};
constexpr Coherence exclusive{TileState::exclusive, 1};
constexpr Coherence modified{TileState::modified, 1};
constexpr Coherence shared(int holders) { return {TileState::shared, holders}; }

std::optional<Coherence> try_next(Coherence now, TileEvent event) {
  try {
    return next(now, event);
  } catch (const InternalError&) {
    return std::nullopt;
  }
}

TEST(Coherence, ReadersComeAndGo) {
  EXPECT_EQ(next(invalid, TileEvent::fetch), exclusive);
  EXPECT_EQ(next(exclusive, TileEvent::fetch), shared(2));
  EXPECT_EQ(next(exclusive, TileEvent::drop), invalid);
  EXPECT_EQ(next(shared(2), TileEvent::drop), exclusive);
  for (int holders = 2; holders < 16; ++holders) {
    EXPECT_EQ(next(shared(holders), TileEvent::fetch), shared(holders + 1));
    EXPECT_EQ(next(shared(holders + 1), TileEvent::drop), shared(holders));
  }
}

TEST(Coherence, AWriterIsAloneAndEndsByWritingBack) {
  EXPECT_EQ(next(invalid, TileEvent::write), modified);
  EXPECT_EQ(next(exclusive, TileEvent::write), modified);
  EXPECT_EQ(next(modified, TileEvent::write_back), invalid);
  EXPECT_EQ(next(modified, TileEvent::write_back_keep), exclusive);
}

TEST(Coherence, NothingElseIsAllowed) {
  EXPECT_FALSE(try_next(invalid, TileEvent::drop));
  EXPECT_FALSE(try_next(shared(2), TileEvent::write));
  EXPECT_FALSE(try_next(modified, TileEvent::fetch));
  EXPECT_FALSE(try_next(modified, TileEvent::drop));
  EXPECT_FALSE(try_next(modified, TileEvent::write));
  for (const Coherence readers : {invalid, exclusive, shared(2), shared(5)}) {
    EXPECT_FALSE(try_next(readers, TileEvent::write_back));
    EXPECT_FALSE(try_next(readers, TileEvent::write_back_keep));
  }
}

}  // namespace
}  // namespace tessera::cache
