// Copies through mirrors give what copies from host memory give, and cross the link only once.
#include "residence/mirrored_device.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "device/host/host_device.hpp"

namespace tessera::residence {
namespace {

using device::Block;
using device::Extent;
using device::StreamKind;

constexpr std::size_t slot_bytes = 64 * 64, slots = 4, mirror_bytes = 6 * 64 * 64;

/// Refuses one event.
class RefusingDevice final : public device::HostDevice {
 public:
  using HostDevice::HostDevice;
  device::EventPtr record(device::StreamId stream) override {
    if (refused_in == 0 || --refused_in > 0) return HostDevice::record(stream);
    throw WorkRefused("an event");
  }
  int refused_in = 0;  ///< the event of that number from now on; 0: none
};

struct Gpu {
  explicit Gpu(Residence& residence, int ordinal, std::size_t bytes = mirror_bytes, bool verifies = false) {
    HostDeviceSettings settings;
    settings.memory_bytes = slot_bytes * slots + 2 * bytes;
    auto owned = std::make_unique<RefusingDevice>(ordinal, settings);
    raw = owned.get();
    slab = raw->reserve(slot_bytes * slots);
    device = std::make_unique<MirroredDevice>(std::move(owned), residence, bytes, verifies);
  }
  Block slot(std::size_t number, index_t pitch) const { return {slab + number * slot_bytes, pitch}; }
  /// All that has been submitted is done.
  void wait() const {
    for (const StreamKind kind : {StreamKind::up, StreamKind::down, StreamKind::peer}) {
      const auto event = device->record({kind});
      while (event->status() == device::EventStatus::pending) {
      }
      EXPECT_EQ(event->status(), device::EventStatus::complete);
    }
  }
  std::int64_t copies_up() const { return raw->operations(StreamKind::up); }

  RefusingDevice* raw = nullptr;
  std::byte* slab = nullptr;
  std::unique_ptr<MirroredDevice> device;
};

/// A matrix of bytes, of which each column is 64 of 80 bytes.
struct Matrix {
  explicit Matrix(unsigned seed) : memory(80 * 64) {
    std::mt19937 random(seed);
    for (std::byte& each : memory) each = static_cast<std::byte>(random());
  }
  HostMatrix host() { return {memory.data(), 80, 64, 64}; }
  Block at(index_t row, index_t column) { return {memory.data() + column * 80 + row, 80}; }

  std::vector<std::byte> memory;
};

bool agree(Block a, Block b, Extent extent) {
  for (index_t j = 0; j < extent.columns; ++j) {
    const index_t first = extent.first_byte(j), last = extent.last_byte(j);
    if (std::memcmp(a.address + j * a.pitch_bytes + first, b.address + j * b.pitch_bytes + first,
                    static_cast<std::size_t>(last - first)) != 0)
      return false;
  }
  return true;
}

/// Blocks that are read in place for a while.
class Loans {
 public:
  /// Borrows a block if the device has it, and compares it with what it has to be.
  void borrow(const Gpu& gpu, Block host, Block expected, Extent extent, bool ends_all) {
    if (ends_all) held_.clear();
    auto lent = gpu.device->lend(host, extent);
    if (!lent) return;
    EXPECT_TRUE(agree({lent->address, extent.column_bytes}, expected, extent));
    std::vector<std::byte> bytes(lent->address, lent->address + extent.bytes());
    held_.push_back({std::move(*lent), std::move(bytes)});
  }
  void check() const {
    for (const auto& [lent, bytes] : held_) {
      ASSERT_EQ(std::memcmp(lent.address, bytes.data(), bytes.size()), 0) << "it has been written meanwhile";
    }
  }

 private:
  struct Held {
    device::LentBlock lent;
    std::vector<std::byte> bytes;
  };
  std::vector<Held> held_;
};

TEST(MirroredDevice, CopiesABlockOnce) {
  Residence residence;
  const Gpu gpu(residence, 0);
  Matrix matrix(1);
  ASSERT_TRUE(residence.add(matrix.host()));
  const Extent extent{32, 16};
  for (std::size_t time = 0; time < 3; ++time) {
    gpu.device->copy_up(gpu.slot(time, 32), matrix.at(8, 4), extent);
    gpu.wait();
    EXPECT_TRUE(agree(gpu.slot(time, 32), matrix.at(8, 4), extent));
    EXPECT_EQ(gpu.copies_up(), 1);
  }
  EXPECT_EQ(gpu.device->found_bytes(), 2 * 32 * 16);
}

TEST(MirroredDevice, OthersAreNotToldOfTheMirrorsMemory) {
  Residence residence;
  const Gpu gpu(residence, 0);
  Matrix matrix(1);
  ASSERT_TRUE(residence.add(matrix.host()));
  EXPECT_EQ(gpu.device->info().memory_bytes, slot_bytes * slots + mirror_bytes);
  const std::size_t free = gpu.device->free_memory_bytes();
  EXPECT_EQ(free, mirror_bytes);
  gpu.device->copy_up(gpu.slot(0, 32), matrix.at(8, 4), {32, 16});
  EXPECT_EQ(gpu.device->free_memory_bytes(), free);
  EXPECT_LT(gpu.raw->free_memory_bytes(), free + mirror_bytes);
  gpu.device->give_back();
  EXPECT_EQ(gpu.device->free_memory_bytes(), free);
  EXPECT_EQ(gpu.raw->free_memory_bytes(), free + mirror_bytes);
}

TEST(MirroredDevice, CopiesThatAreVerified) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Residence residence;
  const Gpu gpu(residence, 0, mirror_bytes, true);
  Matrix matrix(1);
  ASSERT_TRUE(residence.add(matrix.host()));
  for (int time = 0; time < 2; ++time) gpu.device->copy_up(gpu.slot(0, 32), matrix.at(8, 4), {32, 16});
  gpu.wait();
  EXPECT_EQ(gpu.device->found_bytes(), 32 * 16);
  *matrix.at(20, 9).address ^= std::byte{1};  // and nobody says so
  EXPECT_DEATH(gpu.device->copy_up(gpu.slot(0, 32), matrix.at(8, 4), {32, 16}), "not what host memory says");
}

TEST(MirroredDevice, UnknownMemoryIsCopiedAsEver) {
  Residence residence;
  const Gpu gpu(residence, 0);
  Matrix matrix(1);
  for (int time = 1; time <= 2; ++time) {
    gpu.device->copy_up(gpu.slot(0, 32), matrix.at(8, 4), {32, 16});
    gpu.wait();
    EXPECT_EQ(gpu.copies_up(), time);
  }
}

TEST(MirroredDevice, AnotherTilingIsPutTogether) {
  Residence residence;
  const Gpu gpu(residence, 0);
  Matrix matrix(2);
  ASSERT_TRUE(residence.add(matrix.host()));
  for (const index_t row : {0, 32}) {
    for (const index_t column : {0, 32}) gpu.device->copy_up(gpu.slot(0, 32), matrix.at(row, column), {32, 32});
  }
  gpu.wait();
  EXPECT_EQ(gpu.copies_up(), 4);
  gpu.device->copy_up(gpu.slot(1, 50), matrix.at(7, 9), {50, 40});
  gpu.wait();
  EXPECT_EQ(gpu.copies_up(), 4);
  EXPECT_TRUE(agree(gpu.slot(1, 50), matrix.at(7, 9), {50, 40}));
}

TEST(MirroredDevice, WhatTheCallerWritesIsFetchedAgain) {
  Residence residence;
  const Gpu gpu(residence, 0);
  Matrix matrix(3);
  ASSERT_TRUE(residence.add(matrix.host()));
  gpu.device->copy_up(gpu.slot(0, 64), matrix.at(0, 0), {64, 64});
  gpu.wait();
  std::byte* const written = matrix.at(5, 17).address;
  *written ^= std::byte{255};
  residence.drop({written, written + 1});
  gpu.device->copy_up(gpu.slot(1, 64), matrix.at(0, 0), {64, 64});
  gpu.wait();
  EXPECT_TRUE(agree(gpu.slot(1, 64), matrix.at(0, 0), {64, 64}));
  // Between two columns there is nothing of the matrix.
  residence.drop({matrix.at(64, 17).address, matrix.at(80, 17).address});
  gpu.device->copy_up(gpu.slot(1, 64), matrix.at(0, 0), {64, 64});
  gpu.wait();
  EXPECT_EQ(gpu.copies_up(), 2);
}

TEST(MirroredDevice, ResultsStayWhereTheyWereMade) {
  Residence residence;
  const Gpu one(residence, 0), other(residence, 1);
  Matrix matrix(4);
  ASSERT_TRUE(residence.add(matrix.host()));
  for (const Gpu* gpu : {&one, &other}) gpu->device->copy_up(gpu->slot(0, 64), matrix.at(0, 0), {64, 64});
  one.wait();
  other.wait();
  std::memset(one.slab + slot_bytes, 7, slot_bytes);
  one.device->copy_down(matrix.at(0, 0), one.slot(1, 64), {64, 64});
  one.wait();
  for (const Gpu* gpu : {&one, &other}) {
    gpu->device->copy_up(gpu->slot(2, 64), matrix.at(0, 0), {64, 64});
    gpu->wait();
    EXPECT_TRUE(agree(gpu->slot(2, 64), matrix.at(0, 0), {64, 64}));
    EXPECT_EQ(gpu->slab[2 * slot_bytes], std::byte{7});
    EXPECT_EQ(gpu->copies_up(), gpu == &one ? 1 : 2);
  }
}

TEST(MirroredDevice, ALossLeavesNothing) {
  Residence residence;
  const Gpu gpu(residence, 0);
  Matrix matrix(5);
  ASSERT_TRUE(residence.add(matrix.host()));
  gpu.device->copy_up(gpu.slot(0, 64), matrix.at(0, 0), {64, 64});
  gpu.wait();
  EXPECT_TRUE(gpu.device->recover());
  EXPECT_EQ(gpu.device->mirror().resident_bytes(), 0U);
}

TEST(MirroredDevice, KnownMatricesDoNotOverlap) {
  Residence residence;
  Matrix matrix(6);
  const auto id = residence.add(matrix.host());
  ASSERT_TRUE(id);
  EXPECT_FALSE(residence.add({matrix.memory.data() + 100, 80, 10, 2}));
  EXPECT_FALSE(residence.add({matrix.memory.data() - 100, 80, 60, 3}));
  residence.remove(*id);
  EXPECT_TRUE(residence.add({matrix.memory.data() + 100, 80, 10, 2}));
}

TEST(MirroredDevice, LendsWhatIsThere) {
  Residence residence;
  const Gpu gpu(residence, 0, mirror_bytes, true);
  Matrix matrix(1);
  const auto id = residence.add(matrix.host());
  const Extent extent{32, 16};
  EXPECT_FALSE(gpu.device->lend(matrix.at(8, 4), extent));
  gpu.device->copy_up(gpu.slot(0, 32), matrix.at(8, 4), extent);
  gpu.wait();
  const auto lent = gpu.device->lend(matrix.at(8, 4), extent);
  ASSERT_TRUE(lent);
  EXPECT_TRUE(agree({lent->address, 32}, matrix.at(8, 4), extent));
  EXPECT_EQ(gpu.device->found_bytes(), extent.bytes());
  EXPECT_FALSE(gpu.device->lend(matrix.at(8, 4), {32, 15}));
  EXPECT_FALSE(gpu.device->lend(matrix.at(8, 4), {16, 16, Part::lower, 1}));
  // A result has a place of its own.
  const Matrix before = matrix;
  std::memset(gpu.slab, 7, slot_bytes);
  gpu.device->copy_down(matrix.at(8, 4), gpu.slot(0, 32), extent);
  gpu.wait();
  EXPECT_TRUE(agree({lent->address, 32}, Matrix(before).at(8, 4), extent));
  const auto next = gpu.device->lend(matrix.at(8, 4), extent);
  ASSERT_TRUE(next);
  EXPECT_EQ(*next->address, std::byte{7});
  residence.hold(*id, Residence::HostUse::writes);
  EXPECT_FALSE(gpu.device->lend(matrix.at(8, 4), extent));
  residence.release(*id, Residence::HostUse::writes);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  *matrix.at(20, 9).address ^= std::byte{1};  // and nobody says so
  EXPECT_DEATH(static_cast<void>(gpu.device->lend(matrix.at(8, 4), extent)), "not what host memory says");
}

TEST(MirroredDevice, NoTriangleIsWrittenIntoWhatIsLent) {
  for (const Residence::Kind kind : {Residence::Kind::written_through, Residence::Kind::lazy}) {
    Residence residence;
    const Gpu gpu(residence, 0);
    Matrix matrix(2);
    ASSERT_TRUE(residence.add(matrix.host(), kind));
    const Extent all{16, 16}, lower{16, 16, Part::lower, 1};
    std::memset(gpu.slab, 7, slot_bytes);
    gpu.device->copy_down(matrix.at(0, 0), gpu.slot(0, 16), all);
    gpu.wait();
    const auto lent = gpu.device->lend(matrix.at(0, 0), all);
    ASSERT_TRUE(lent);
    std::memset(gpu.slab, 9, slot_bytes);
    gpu.device->copy_down(matrix.at(0, 0), gpu.slot(0, 16), lower);
    gpu.wait();
    for (index_t byte = 0; byte < 16 * 16; ++byte) EXPECT_EQ(lent->address[byte], std::byte{7});
    gpu.device->copy_up(gpu.slot(1, 16), matrix.at(0, 0), all);
    gpu.wait();
    for (index_t byte = 0; byte < 16 * 16; ++byte) {
      EXPECT_EQ(gpu.slot(1, 16).address[byte], byte % 16 >= byte / 16 ? std::byte{9} : std::byte{7}) << byte;
    }
    gpu.device->mirror().check_invariants();
  }
}

// Two devices and two matrices, drawn copies in both directions, triangles, writes of the caller, memory that is short.
TEST(MirroredDevice, AgreesWithHostMemoryWhateverHappens) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](index_t most) { return static_cast<index_t>(random() % static_cast<unsigned>(most)); };
    Residence residence;
    const std::size_t bytes = seed % 2 == 0 ? mirror_bytes : 5000;
    const Gpu gpus[] = {Gpu(residence, 0, bytes), Gpu(residence, 1, bytes)};
    Matrix matrices[] = {Matrix(seed), Matrix(seed + 1)};
    for (Matrix& matrix : matrices) ASSERT_TRUE(residence.add(matrix.host()));
    Loans loans;
    for (int step = 0; step < 400; ++step) {
      const Gpu& gpu = gpus[draw(2)];
      Matrix& matrix = matrices[draw(2)];
      const index_t grid = 1 << draw(4);
      index_t row = draw(64) / grid * grid, column = draw(64) / grid * grid;
      Extent extent{std::max<index_t>(1, draw(65 - row)), std::max<index_t>(1, draw(65 - column))};
      if (draw(4) == 0) {
        extent.column_bytes = extent.columns = std::min(extent.column_bytes, extent.columns);
        extent.part = draw(2) == 0 ? Part::lower : Part::upper;
      }
      const Block host = matrix.at(row, column);
      const Block on_device = gpu.slot(static_cast<std::size_t>(draw(4)), extent.column_bytes);
      switch (draw(8)) {
        case 0:
          *host.address ^= std::byte{255};
          residence.drop({host.address, host.address + 1});
          break;
        case 1:
        case 2:
          gpu.device->copy_down(host, on_device, extent);
          gpu.wait();
          ASSERT_TRUE(agree(host, on_device, extent));
          break;
        default:
          gpu.device->copy_up(on_device, host, extent);
          gpu.wait();
          ASSERT_TRUE(agree(host, on_device, extent)) << seed << ' ' << step;
          loans.borrow(gpu, host, host, extent, draw(8) == 0);
      }
      loans.check();
      if (step % 50 == 0) gpu.device->mirror().check_invariants();
    }
    EXPECT_GT(gpus[0].device->found_bytes(), 0);
  }
}

using Kind = Residence::Kind;

TEST(MirroredDevice, ResultsInALazyMatrixStay) {
  Residence residence;
  const Gpu one(residence, 0), other(residence, 1);
  Matrix matrix(7);
  const auto id = residence.add(matrix.host(), Kind::lazy);
  const Matrix before = matrix;
  std::memset(one.slab, 7, slot_bytes);
  one.device->copy_down(matrix.at(8, 4), one.slot(0, 32), {32, 16});
  one.wait();
  EXPECT_EQ(matrix.memory, before.memory);
  EXPECT_EQ(one.raw->operations(StreamKind::down), 0);
  EXPECT_TRUE(residence.is_stale(*id));
  // One device finds it, the other gets it from there.
  for (const Gpu* gpu : {&one, &other}) {
    gpu->device->copy_up(gpu->slot(2, 64), matrix.at(0, 0), {64, 64});
    gpu->wait();
    EXPECT_EQ(gpu->slab[2 * slot_bytes + 64 * 4 + 8], std::byte{7});
    EXPECT_EQ(gpu->slab[2 * slot_bytes + 64 * 4 + 7], *matrix.at(7, 4).address);
  }
  EXPECT_EQ(other.raw->operations(StreamKind::peer), 1);
  ASSERT_TRUE(one.device->copy_down_only_copies(*id, {0, 0, 64, 64}, matrix.at(0, 0)));
  EXPECT_FALSE(other.device->copy_down_only_copies(*id, {0, 0, 64, 64}, matrix.at(0, 0)));
  one.wait();
  residence.note_in_host_memory(*id);
  EXPECT_FALSE(residence.is_stale(*id));
  EXPECT_EQ(*matrix.at(8, 4).address, std::byte{7});
  EXPECT_EQ(*matrix.at(39, 19).address, std::byte{7});
}

TEST(MirroredDevice, APeersCopyThatIsRefusedLeavesNothingBehind) {
  for (int refused = 1; refused <= 4; ++refused) {
    Residence residence;
    const Gpu one(residence, 0), other(residence, 1);
    Matrix matrix(7);
    ASSERT_TRUE(residence.add(matrix.host(), Kind::lazy));
    std::memset(one.slab, 7, slot_bytes);
    one.device->copy_down(matrix.at(8, 4), one.slot(0, 32), {32, 16});
    one.wait();
    other.raw->refused_in = refused;
    const auto fetch = [&] { other.device->copy_up(other.slot(2, 32), matrix.at(8, 4), {32, 16}); };
    if (refused < 4) {
      EXPECT_THROW(fetch(), WorkRefused) << refused;
    }
    other.raw->refused_in = 0;
    other.device->mirror().check_invariants();
    fetch();
    other.wait();
    EXPECT_EQ(other.slab[2 * slot_bytes], std::byte{7});
    other.device->mirror().check_invariants();
  }
}

TEST(MirroredDevice, ResultsInAMatrixThatIsHeldGoDown) {
  Residence residence;
  const Gpu gpu(residence, 0);
  Matrix matrix(8);
  const auto id = residence.add(matrix.host(), Kind::lazy);
  std::memset(gpu.slab, 7, slot_bytes);
  residence.hold(*id, Residence::HostUse::reads);
  gpu.device->copy_down(matrix.at(8, 4), gpu.slot(0, 32), {32, 16});
  gpu.wait();
  EXPECT_EQ(*matrix.at(8, 4).address, std::byte{7});
  EXPECT_FALSE(residence.is_stale(*id));
  residence.release(*id, Residence::HostUse::reads);
  gpu.device->copy_down(matrix.at(8, 4), gpu.slot(0, 32), {32, 16});
  EXPECT_TRUE(residence.is_stale(*id));
}

TEST(MirroredDevice, ALazyMatrixIsLostWithItsDevice) {
  Residence residence;
  const Gpu one(residence, 0), other(residence, 1);
  Matrix first(9), second(10);
  const auto a = residence.add(first.host(), Kind::lazy), b = residence.add(second.host(), Kind::lazy);
  one.device->copy_down(first.at(0, 0), one.slot(0, 32), {32, 16});
  other.device->copy_down(second.at(0, 0), other.slot(0, 32), {32, 16});
  one.wait();
  other.wait();
  EXPECT_TRUE(one.device->recover()) << "nothing is lost by it";
  EXPECT_TRUE(residence.is_stale(*a));
  one.device->forget();
  EXPECT_TRUE(residence.is_lost(*a));
  EXPECT_FALSE(residence.is_lost(*b));
  EXPECT_TRUE(residence.is_stale(*b));
  residence.find_again(*a);
  EXPECT_FALSE(residence.is_lost(*a));
}

// Blocks and triangles go up and down on up to three devices, the caller writes, and host memory is made true now and
// then. A device always reads the values that were written last.
TEST(MirroredDevice, LazyMatricesAreWhatWasWrittenLast) {
  constexpr index_t element = 4, side = 16;
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](index_t most) { return static_cast<index_t>(random() % static_cast<unsigned>(most)); };
    Residence residence;
    std::vector<Gpu> gpus;
    const bool is_short = seed % 3 == 2;
    for (int d = 0; d < 1 + static_cast<int>(seed % 4) % 3; ++d)
      gpus.emplace_back(residence, d, is_short ? std::size_t{4096} : mirror_bytes);
    Matrix matrix(seed), truth = matrix;
    const auto id = residence.add(matrix.host(), Kind::lazy);
    Loans loans;
    const auto settle = [&] {
      for (const Gpu& gpu : gpus) {
        static_cast<void>(gpu.device->copy_down_only_copies(*id, {0, 0, 64, 64}, matrix.at(0, 0)));
        gpu.wait();
      }
      residence.note_in_host_memory(*id);
      ASSERT_TRUE(agree(matrix.at(0, 0), truth.at(0, 0), {64, 64})) << seed;
    };
    for (int step = 0; step < 60; ++step) {
      const Gpu& gpu = gpus[static_cast<std::size_t>(draw(static_cast<index_t>(gpus.size())))];
      const index_t row = draw(side), column = draw(64);
      Extent extent{(1 + draw(side - row)) * element, 1 + draw(64 - column)};
      if (draw(4) == 0) {
        const index_t n = std::min(extent.column_bytes / element, extent.columns);
        extent = {n * element, n, draw(2) == 0 ? Part::lower : Part::upper, element};
      }
      const Block host = matrix.at(row * element, column), slot = gpu.slot(0, 64);
      const index_t kind = draw(12);
      if (kind < 5) {
        gpu.device->copy_up(slot, host, extent);
        gpu.wait();
        ASSERT_TRUE(agree(slot, truth.at(row * element, column), extent)) << seed << ' ' << step;
        loans.borrow(gpu, host, truth.at(row * element, column), extent, draw(4) == 0);
      } else if (kind < 10) {
        for (std::size_t byte = 0; byte < slot_bytes; ++byte) gpu.slab[byte] = static_cast<std::byte>(random());
        gpu.device->copy_down(host, slot, extent);
        gpu.wait();
        for (index_t j = 0; j < extent.columns; ++j) {
          const index_t first = extent.first_byte(j), last = extent.last_byte(j);
          std::memcpy(truth.at(row * element + first, column + j).address, slot.address + j * 64 + first,
                      static_cast<std::size_t>(last - first));
        }
      } else if (kind == 10) {
        extent.part = Part::full;
        for (index_t j = 0; j < extent.columns; ++j) {
          for (Matrix* each : {&matrix, &truth})
            std::memset(each->at(row * element, column + j).address, step,
                        static_cast<std::size_t>(extent.column_bytes));
        }
        residence.drop(host, extent);
      } else {
        settle();
      }
      loans.check();
      for (const Gpu& each : gpus) each.device->mirror().check_invariants();
    }
    settle();
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tessera::residence
