// Pools, pieces of memory and children for the tests of pools.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <random>
#include <vector>

#include "pool/segment_pool.hpp"

namespace tessera::pool {

inline constexpr std::size_t mib = std::size_t{1} << 20;
inline constexpr SegmentPool::Limits roomy = {512 * mib, 512 * mib, std::chrono::hours(1)};

/// Without its thread a pool keeps nothing. It begins when somebody who has freed a piece asks for another.
inline void begin_to_keep(SegmentPool& pool) {
  pool.free(pool.allocate(1));
  pool.free(pool.allocate(1));
  pool.trim();
}

inline std::byte* bytes_at(void* address) { return static_cast<std::byte*>(address); }

inline bool is_mapped(const void* address) {
  unsigned char there = 0;
  return mincore(const_cast<void*>(address), 4096, &there) == 0 && (there & 1) != 0;
}

/// Runs `body` in a child. @return its result, or 100 and more if a signal has ended it
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/// Writes a pattern at both ends of each piece, and expects it there later.
class Churn {
 public:
  Churn(SegmentPool& pool, unsigned seed) : pool_(pool), random_(seed) {}
  void run(int operations) {
    run(operations, [](std::byte*) {});
  }
  /// @param use is called with each new piece, after its first byte
  template <class Use>
  void run(int operations, Use use) {
    for (int i = 0; i < operations; ++i) {
      if (pieces_.size() < 4 || (pieces_.size() < 12 && random_() % 2 == 0))
        add(use);
      else
        (random_() % 3 == 0) ? change() : drop();
    }
    while (!pieces_.empty()) drop();
  }
  int wrong() const { return wrong_; }

 private:
  struct Piece {
    std::byte* begin;
    std::size_t bytes;
    std::byte mark;
  };
  std::size_t some_bytes() { return mib + random_() % (15 * mib); }
  void mark(Piece& piece) {
    piece.mark = static_cast<std::byte>(random_());
    piece.begin[0] = piece.begin[piece.bytes - 1] = piece.mark;
  }
  void check(const Piece& piece) { wrong_ += piece.begin[0] != piece.mark ? 1 : 0; }
  template <class Use>
  void add(Use use) {
    const std::size_t bytes = some_bytes();
    const bool zeroed = random_() % 4 == 0;
    auto* const begin = bytes_at(pool_.allocate(bytes, zeroed));
    if (begin == nullptr) return;
    if (zeroed) wrong_ += begin[0] != std::byte{0} || begin[bytes - 1] != std::byte{0} ? 1 : 0;
    use(begin);
    pieces_.push_back({begin, bytes, {}});
    mark(pieces_.back());
  }
  void change() {
    Piece& piece = pieces_[random_() % pieces_.size()];
    check(piece);
    const std::size_t bytes = some_bytes();
    const std::byte before = piece.begin[0];
    auto* const resized = bytes_at(pool_.resize(piece.begin, bytes));
    if (resized == nullptr) return;
    wrong_ += resized[0] != before ? 1 : 0;
    piece.begin = resized;
    piece.bytes = bytes;
    mark(piece);
  }
  void drop() {
    const std::size_t at = random_() % pieces_.size();
    check(pieces_[at]);
    pool_.free(pieces_[at].begin);
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  SegmentPool& pool_;
  std::mt19937 random_;
  std::vector<Piece> pieces_;
  int wrong_ = 0;
};

}  // namespace tessera::pool
