// Staging rings with a thread in place of a GPU's stream. It waits for and writes the same numbers, and copies the
// parts of staged_parts() between the slots and its own memory.
#include "device/staging.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

namespace tessera::device {
namespace staging_test {

using Direction = StagingRing::Direction;

/// Executes operations in order, on a thread of its own, like a stream.
class Stream {
 public:
  Stream() : thread_([this] { run(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void submit(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  void await(std::uint32_t& number, std::uint32_t value) {
    submit([&number, value] {
      while (static_cast<std::int32_t>(std::atomic_ref(number).load(std::memory_order_acquire) - value) < 0)
        std::this_thread::yield();
    });
  }
  void write(std::uint32_t& number, std::uint32_t value) {
    submit([&number, value] { std::atomic_ref(number).store(value, std::memory_order_release); });
  }
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return work_.empty() && idle_; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ending_ || !work_.empty(); });
      if (work_.empty()) return;
      const auto work = std::move(work_.front());
      work_.pop_front();
      idle_ = false;
      lock.unlock();
      work();
      lock.lock();
      idle_ = true;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool idle_ = true;
  bool ending_ = false;
  std::thread thread_;
};

/// A ring and its memory.
struct Rig {
  Rig(Direction direction, std::size_t slots, index_t slot_bytes, int threads)
      : numbers(slots),
        memory(slots * static_cast<std::size_t>(slot_bytes)),
        up(direction == Direction::up),
        carriers(threads, threads),
        ring(direction, numbers.data(), memory.data(), slots, {slot_bytes, std::max<index_t>(slot_bytes / 3, 100)},
             carriers, threads) {}

  /// Copies as CudaDevice does.
  void copy(Block device, Block host, Extent extent, const WrittenSlicesPtr& written = nullptr) {
    std::vector<StagingRing::Use> uses;
    for (const StagedPiece& piece : written ? staged_slices(extent, written->kind(), ring.slot_bytes())
                                            : staged_pieces(extent, ring.slot_bytes())) {
      EXPECT_LE(piece.pitch_bytes() * piece.columns, ring.slot_bytes());
      const StagingRing::Use use = ring.add(host, extent, piece, written);
      StagingRing::Slot& slot = ring.slot(use.slot);
      if (up) {
        stream.await(slot.filled, use.number);
      } else {
        stream.await(slot.emptied, use.number - 1);
      }
      for (const StagedPart& part : staged_parts(piece, extent)) {
        std::byte* const packed = ring.memory(use.slot) + (part.first - piece.first);
        stream.submit([=, this] {
          for (index_t j = 0; j < part.extent.columns; ++j) {
            for (index_t b = part.extent.first_byte(j); b < part.extent.last_byte(j); ++b) {
              std::byte& on_device = device.address[(part.column + j) * device.pitch_bytes + part.first + b];
              std::byte& staged = packed[j * piece.pitch_bytes() + b];
              (up ? on_device : staged) = up ? staged : on_device;
            }
          }
        });
      }
      stream.write(up ? slot.emptied : slot.filled, use.number);
      uses.push_back(use);
    }
    if (up) return;
    for (std::size_t u = uses.size() - std::min(uses.size(), ring.slot_count()); u < uses.size(); ++u)
      stream.await(ring.slot(uses[u].slot).emptied, uses[u].number);
  }

  std::vector<StagingRing::Slot> numbers;
  std::vector<std::byte> memory;
  bool up;
  StagingThreads carriers;
  StagingRing ring;
  Stream stream;
};

struct Matrix {
  Matrix(index_t columns, index_t pitch) : bytes(static_cast<std::size_t>(columns * pitch)), pitch_bytes(pitch) {}
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  }
  Block block() { return {bytes.data(), pitch_bytes}; }

  std::vector<std::byte> bytes;
  index_t pitch_bytes;
};

bool moved(Extent extent, index_t j, index_t byte) {
  return byte >= extent.first_byte(j) && byte < extent.last_byte(j);
}

class Staging : public ::testing::TestWithParam<Direction> {};
INSTANTIATE_TEST_SUITE_P(Directions, Staging, ::testing::Values(Direction::up, Direction::down));

TEST_P(Staging, MovesWhatTheExtentSaysAndNothingElse) {
  const Extent extents[] = {
      {0, 0},
      {8, 1},
      {1, 50},
      {200, 33},
      {1000, 3},
      {256, 16},
      {5000, 2},
      {4096, 1},
      {160, 20, Part::lower, 8},
      {160, 20, Part::upper, 8},
      {800, 50, Part::lower, 16},
      {800, 50, Part::upper, 16},
      {8, 1, Part::upper, 8},
      {2400, 300, Part::lower, 8},
      {2400, 300, Part::upper, 8},
  };
  for (const index_t slot_bytes : {64, 1000, 1024, 4096}) {
    Rig rig(GetParam(), 3, slot_bytes, 2);
    unsigned seed = 1;
    for (const Extent& extent : extents) {
      Matrix host(extent.columns, extent.column_bytes + 24);
      Matrix device(extent.columns, extent.column_bytes);
      host.fill(++seed);
      device.fill(++seed);
      const Matrix old_host = host;
      const Matrix old_device = device;
      rig.copy(device.block(), host.block(), extent);
      rig.stream.finish();
      for (index_t j = 0; j < extent.columns; ++j) {
        for (index_t b = 0; b < host.pitch_bytes; ++b) {
          const auto h = static_cast<std::size_t>(j * host.pitch_bytes + b);
          const auto d = static_cast<std::size_t>(j * device.pitch_bytes + b);
          const bool is_moved = b < extent.column_bytes && moved(extent, j, b);
          const std::byte expected_host = is_moved && !rig.up ? old_device.bytes[d] : old_host.bytes[h];
          ASSERT_EQ(host.bytes[h], expected_host) << j << ' ' << b << ' ' << slot_bytes;
          if (b >= extent.column_bytes) continue;
          const std::byte expected_device = is_moved && rig.up ? old_host.bytes[h] : old_device.bytes[d];
          ASSERT_EQ(device.bytes[d], expected_device) << j << ' ' << b << ' ' << slot_bytes;
        }
      }
    }
  }
}

constexpr Extent sliced_columns[] = {{200, 33, Part::full, 8},  {1000, 3, Part::full, 8},  {1024, 1, Part::full, 8},
                                     {160, 20, Part::lower, 8}, {160, 20, Part::upper, 8}, {800, 50, Part::lower, 16},
                                     {800, 50, Part::upper, 16}};
constexpr Extent sliced_rows[] = {{2000, 2, Part::full, 8}, {520, 1, Part::full, 8}, {4096, 2, Part::full, 16}};

std::vector<std::pair<SliceKind, Extent>> slice_cases() {
  std::vector<std::pair<SliceKind, Extent>> cases;
  for (const Extent& extent : sliced_columns) cases.emplace_back(SliceKind::columns, extent);
  for (const Extent& extent : sliced_rows) cases.emplace_back(SliceKind::rows, extent);
  return cases;
}

// Slices consist of whole elements, each once, in order.
TEST(StagedSlices, AreThePartsOfABlock) {
  constexpr index_t slot_bytes = 1024;
  for (const auto& [kind, extent] : slice_cases()) {
    ASSERT_TRUE(can_stage_slices(extent, kind, slot_bytes));
    index_t end = 0;
    for (const StagedPiece& piece : staged_slices(extent, kind, slot_bytes)) {
      EXPECT_LE(piece.pitch_bytes() * piece.columns, slot_bytes);
      if (kind == SliceKind::rows) {
        EXPECT_EQ(piece.first, end);
        EXPECT_EQ(piece.column, 0);
        EXPECT_EQ(piece.columns, extent.columns);
        EXPECT_EQ(piece.last % extent.element_bytes, 0);
        end = piece.last;
      } else {
        EXPECT_EQ(piece.column, end);
        EXPECT_LE(piece.first, extent.first_byte(piece.column));
        EXPECT_GE(piece.last, extent.last_byte(piece.column + piece.columns - 1));
        end = piece.column + piece.columns;
      }
    }
    EXPECT_EQ(end, kind == SliceKind::rows ? extent.column_bytes : extent.columns);
  }
}

TEST(StagedSlices, AreNotWhereNoSlotTakesOneThatIsWorthIt) {
  EXPECT_FALSE(can_stage_slices({1025, 2, Part::full, 1}, SliceKind::columns, 1024));
  EXPECT_FALSE(can_stage_slices({1000, 3, Part::full, 8}, SliceKind::rows, 1024));  // 340 bytes of a column
  EXPECT_TRUE(can_stage_slices({64, 16, Part::full, 8}, SliceKind::rows, 1024));    // all of it
  EXPECT_FALSE(can_stage_slices({64, 8, Part::lower, 8}, SliceKind::rows, 1024));
  EXPECT_FALSE(can_stage_slices({64, 8, Part::full, 8}, SliceKind::none, 1024));
}

// The device is lost after so many slots, or before any part is done, while threads write.
TEST(StagedSlices, AreWrittenWholeOrNotAtAllWhateverBecomesOfTheDevice) {
  for (const auto& [kind, extent] : slice_cases()) {
    for (std::size_t filled = 0; filled < 8; ++filled) {
      const auto written = std::make_shared<WrittenSlices>(kind);
      Matrix host(extent.columns, extent.column_bytes + 24);
      Matrix device(extent.columns, extent.column_bytes);
      host.fill(1);
      device.fill(2);
      const Matrix old = host;
      {
        Rig rig(Direction::down, 8, 1024, 3);
        std::size_t added = 0;
        for (const StagedPiece& piece : staged_slices(extent, kind, rig.ring.slot_bytes())) {
          if (added++ == 8) break;  // the stream would have to wait for a slot
          const StagingRing::Use use = rig.ring.add(host.block(), extent, piece, written);
          if (added > filled) continue;
          for (index_t j = piece.column; j < piece.column + piece.columns; ++j) {
            const index_t first = std::max(extent.first_byte(j), piece.first);
            const index_t last = std::min(extent.last_byte(j), piece.last);
            std::copy(device.bytes.data() + j * device.pitch_bytes + first,
                      device.bytes.data() + j * device.pitch_bytes + last,
                      rig.ring.memory(use.slot) + (j - piece.column) * piece.pitch_bytes() + (first - piece.first));
          }
          std::atomic_ref(rig.ring.slot(use.slot).filled).store(use.number, std::memory_order_release);
        }
        rig.ring.abandon();
      }
      const index_t end = written->end();
      for (index_t j = 0; j < extent.columns; ++j) {
        for (index_t b = 0; b < extent.column_bytes; ++b) {
          const bool is_new = moved(extent, j, b) && (kind == SliceKind::rows ? b < end : j < end);
          const auto h = static_cast<std::size_t>(j * host.pitch_bytes + b);
          ASSERT_EQ(host.bytes[h],
                    is_new ? device.bytes[static_cast<std::size_t>(j * device.pitch_bytes + b)] : old.bytes[h])
              << j << ' ' << b << ' ' << end;
        }
      }
    }
  }
}

// Every slice is written and reported.
TEST(StagedSlices, AreAllWrittenInTheEnd) {
  for (const auto& [kind, extent] : slice_cases()) {
    Rig rig(Direction::down, 3, 1024, 3);
    const auto written = std::make_shared<WrittenSlices>(kind);
    Matrix host(extent.columns, extent.column_bytes + 24);
    Matrix device(extent.columns, extent.column_bytes);
    device.fill(3);
    rig.copy(device.block(), host.block(), extent, written);
    rig.stream.finish();
    rig.ring.abandon();
    EXPECT_EQ(written->end(), kind == SliceKind::rows ? extent.column_bytes : extent.columns);
    for (index_t j = 0; j < extent.columns; ++j) {
      for (index_t b = 0; b < extent.column_bytes; ++b) {
        if (!moved(extent, j, b)) continue;
        ASSERT_EQ(host.bytes[static_cast<std::size_t>(j * host.pitch_bytes + b)],
                  device.bytes[static_cast<std::size_t>(j * device.pitch_bytes + b)]);
      }
    }
  }
}

TEST_P(Staging, ManyCopiesAreUnderWayAtATime) {
  Rig rig(GetParam(), 5, 512, 3);
  const Extent extent{300, 10};
  std::vector<Matrix> hosts(40, Matrix(10, 304));
  std::vector<Matrix> devices(40, Matrix(10, 300));
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    (rig.up ? hosts : devices)[i].fill(static_cast<unsigned>(i));
    rig.copy(devices[i].block(), hosts[i].block(), extent);
  }
  rig.stream.finish();
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (index_t j = 0; j < 10; ++j) {
      const auto* const host = hosts[i].bytes.data() + j * 304;
      ASSERT_TRUE(std::equal(host, host + 300, devices[i].bytes.data() + j * 300)) << i << ' ' << j;
    }
  }
}

TEST_P(Staging, AnAbandonedRingTouchesNothingAndLetsTheStreamEnd) {
  const Extent extent{100, 20};
  Matrix host(20, 100);
  Matrix device(20, 100);
  Rig rig(GetParam(), 2, 100, 2);
  std::atomic<bool> go = false;
  rig.stream.submit([&] { go.wait(false); });  // a kernel for which the copy has to wait
  rig.copy(device.block(), host.block(), extent);
  rig.ring.abandon();
  host.fill(7);
  device.fill(8);
  const Matrix before = host;
  go = true;
  go.notify_all();
  rig.stream.finish();
  rig.copy(device.block(), host.block(), extent);  // and again after that
  rig.stream.finish();
  EXPECT_EQ(host.bytes, before.bytes);
}

// A matrix that an earlier copy, for which the stream waits, is to write.
TEST(StagingGate, NothingIsReadBeforeTheStreamGetsThere) {
  const Extent extent{100, 20};
  Matrix host(20, 100);
  Matrix device(20, 100);
  Rig rig(Direction::up, 8, 300, 3);
  host.fill(1);
  for (unsigned round = 0; round < 20; ++round) {
    std::atomic<bool> go = false;
    rig.stream.submit([&] { go.wait(false); });
    rig.stream.write(rig.ring.slot(0).gate, rig.ring.add_gate());
    rig.copy(device.block(), host.block(), extent);
    std::this_thread::yield();
    host.fill(round + 2);
    go = true;
    go.notify_all();
    rig.stream.finish();
    ASSERT_EQ(device.bytes, host.bytes) << round;
  }
}

TEST(StagingShares, CoverAPieceOnce) {
  const auto piece = [](index_t column, index_t columns, index_t first, index_t last) {
    return StagedPiece{column, columns, first, last};
  };
  for (const StagedPiece& whole :
       {piece(0, 1, 0, 0), piece(3, 1, 8, 9), piece(3, 1, 0, 1000), piece(2, 7, 16, 116), piece(0, 100, 0, 1)}) {
    for (const index_t bytes : {1, 64, 100, 250, 5000}) {
      std::vector<int> times(static_cast<std::size_t>(whole.pitch_bytes() * whole.columns), 0);
      const std::vector<StagedShare> shares = staged_shares(whole, bytes);
      ASSERT_FALSE(shares.empty());
      for (const StagedShare& share : shares) {
        const index_t share_bytes = share.piece.pitch_bytes() * share.piece.columns;
        EXPECT_LE(share_bytes, std::max(bytes, whole.pitch_bytes()));
        EXPECT_EQ(share.offset,
                  (share.piece.column - whole.column) * whole.pitch_bytes() + share.piece.first - whole.first);
        for (index_t b = 0; b < share_bytes; ++b) ++times[static_cast<std::size_t>(share.offset + b)];
      }
      EXPECT_EQ(times, std::vector<int>(times.size(), 1));
    }
  }
}

// Both rings have the same threads. A direction whose device is idle for a while must not delay the other.
TEST(StagingThreadsOfTwoRings, ADirectionThatWaitsLeavesThreadsToTheOther) {
  for (const int threads : {StagingThreads::fewest, 3, 8}) {
    StagingThreads carriers(threads, threads);
    std::vector<StagingRing::Slot> numbers(2 * 3);
    std::vector<std::byte> memory(2 * 3 * 512);
    StagingRing up(Direction::up, numbers.data(), memory.data(), 3, {512, 100}, carriers, threads);
    StagingRing down(Direction::down, numbers.data() + 3, memory.data() + 3 * 512, 3, {512, 100}, carriers, threads);
    Matrix source(8, 512);
    Matrix target(8, 512);
    source.fill(1);
    const Extent extent{512, 1};
    // Eight uses of three slots that the device does not empty.
    std::vector<StagingRing::Use> uses;
    for (index_t j = 0; j < 8; ++j)
      uses.push_back(up.add({source.bytes.data() + j * 512, 512}, extent, {0, 1, 0, 512}));
    for (index_t j = 0; j < 8; ++j) {
      const StagingRing::Use use = down.add({target.bytes.data() + j * 512, 512}, extent, {0, 1, 0, 512});
      std::fill_n(down.memory(use.slot), 512, static_cast<std::byte>(j + 1));
      std::atomic_ref(down.slot(use.slot).filled).store(use.number);
      while (std::atomic_ref(down.slot(use.slot).emptied).load() != use.number) std::this_thread::yield();
      EXPECT_EQ(target.bytes[static_cast<std::size_t>(j * 512 + 511)], static_cast<std::byte>(j + 1));
    }
    for (std::size_t j = 0; j < 8; ++j) {
      while (std::atomic_ref(up.slot(uses[j].slot).filled).load() != uses[j].number) std::this_thread::yield();
      EXPECT_TRUE(std::equal(up.memory(uses[j].slot), up.memory(uses[j].slot) + 512, source.bytes.data() + j * 512));
      std::atomic_ref(up.slot(uses[j].slot).emptied).store(uses[j].number);
    }
  }
}

TEST(StagingPieces, FitIntoASlotAndCoverTheExtentOnce) {
  for (const Extent& extent : {Extent{1000, 7}, Extent{64, 100}, Extent{480, 60, Part::lower, 8},
                               Extent{480, 60, Part::upper, 8}, Extent{5000, 3}}) {
    for (const index_t slot_bytes : {100, 1000, 10000, 1000000}) {
      std::vector<int> times(static_cast<std::size_t>(extent.column_bytes * extent.columns), 0);
      for (const StagedPiece& piece : staged_pieces(extent, slot_bytes)) {
        EXPECT_LE(piece.pitch_bytes() * piece.columns, slot_bytes);
        for (const StagedPart& part : staged_parts(piece, extent)) {
          EXPECT_GE(part.first, piece.first);
          for (index_t j = 0; j < part.extent.columns; ++j) {
            for (index_t b = part.extent.first_byte(j); b < part.extent.last_byte(j); ++b)
              ++times[static_cast<std::size_t>((part.column + j) * extent.column_bytes + part.first + b)];
          }
        }
      }
      for (index_t j = 0; j < extent.columns; ++j) {
        for (index_t b = 0; b < extent.column_bytes; ++b) {
          ASSERT_EQ(times[static_cast<std::size_t>(j * extent.column_bytes + b)], moved(extent, j, b) ? 1 : 0)
              << j << ' ' << b << ' ' << slot_bytes;
        }
      }
    }
  }
}

}  // namespace staging_test
}  // namespace tessera::device
