// The tile cache while a device is slow to accept a copy: the others continue, and fetch nothing a second time. On
// modelled devices, of which one lets the test decide when, and whether, its copies are submitted.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "cache/tile_cache.hpp"
#include "core/error.hpp"
#include "tests/cache/tile_cache_fixture.hpp"
#include "tests/meeting.hpp"
#include "tests/modelled_run.hpp"

namespace tessera::cache {
namespace tile_submission_test {

class SlowToTake final : public test::ModelledDevice {
 public:
  using ModelledDevice::ModelledDevice;
  void copy_up(device::Block to, device::Block from, device::Extent extent) override {
    if (on_copy_up) on_copy_up();
    ModelledDevice::copy_up(to, from, extent);
  }
  void copy_down(device::Block to, device::Block from, device::Extent extent) override {
    if (on_copy_down) on_copy_down();
    ModelledDevice::copy_down(to, from, extent);
  }
  void copy_peer(device::Block to, Device& source, device::Block from, device::Extent extent) override {
    if (on_copy_peer) on_copy_peer();
    ModelledDevice::copy_peer(to, source, from, extent);
  }
  void copy_to_peer(Device& target, device::Block to, device::Block from, device::Extent extent) override {
    if (on_copy_to_peer) on_copy_to_peer();
    ModelledDevice::copy_to_peer(target, to, from, extent);
  }
  std::function<void()> on_copy_up, on_copy_down, on_copy_peer, on_copy_to_peer;
};

class TileSubmission : public ::testing::Test {
 protected:
  TileSubmission() { cache.begin_job(tile_bytes, sizeof(double)); }

  // No memory lies behind it: addresses are only compared.
  static HostTile tile(std::uintptr_t number) {
    return {reinterpret_cast<std::byte*>((std::uintptr_t{1} << 40) + number * tile_bytes), rows, cols, rows};
  }

  // Runs submit() on another thread and, during the submission, `meanwhile()` on this thread for the other device.
  template <class Submit, class Meanwhile>
  void check_side_by_side(std::function<void()>& on_submission, Submit&& submit, Meanwhile&& meanwhile) {
    std::promise<void> submitting;
    test::Meeting meeting(2);
    on_submission = [&] {
      submitting.set_value();
      EXPECT_TRUE(meeting.wait_for_all());
    };
    std::thread first(submit);
    submitting.get_future().wait();
    meanwhile();
    EXPECT_TRUE(meeting.wait_for_all());
    first.join();
    on_submission = nullptr;
    cache.check_invariants();
  }

  const test::ModelledMachine machine = test::modelled_h200(2);
  test::VirtualClock clock;
  test::HostTraffic traffic;
  SlowToTake slow{0, machine, clock, traffic};
  SlowToTake other{1, machine, clock, traffic};
  TileCache cache{
      {{&slow, slow.reserve(8 * tile_bytes), 8 * tile_bytes}, {&other, other.reserve(8 * tile_bytes), 8 * tile_bytes}}};
};

TEST_F(TileSubmission, FromTheHostDoesNotHoldUpOtherDevices) {
  check_side_by_side(
      slow.on_copy_up, [&] { EXPECT_NE(cache.pin(0, tile(0)), nullptr); },
      [&] {
        EXPECT_NE(cache.pin(1, tile(1)), nullptr);
        EXPECT_NE(cache.acquire_output(1, tile(2), true), nullptr);
        EXPECT_EQ(cache.prefetch(1, tile(3), 0), Prefetch::started);
        // locate() and prefetch() count a tile as present while it is being submitted.
        EXPECT_EQ(cache.locate(1, tile(0)), Level::l2);
        EXPECT_EQ(cache.prefetch(1, tile(0), 0), Prefetch::held);
        cache.check_invariants();
      });
  EXPECT_EQ(cache.counters(0).misses, 1);
}

TEST_F(TileSubmission, OfAWriteBackDoesNotHoldUpOtherDevices) {
  Replica* const output = cache.acquire_output(0, tile(0), false);
  ASSERT_NE(output, nullptr);
  bool begun = false;
  check_side_by_side(
      slow.on_copy_down, [&] { EXPECT_NE(cache.write_back(output, 0, begun), nullptr); },
      [&] { EXPECT_NE(cache.pin(1, tile(1)), nullptr); });
  EXPECT_TRUE(begun);
  EXPECT_EQ(cache.counters(0).bytes_down, static_cast<std::int64_t>(tile_bytes));
}

// The source has a reader meanwhile.
TEST_F(TileSubmission, FromAPeerDoesNotHoldUpOtherDevices) {
  Replica* const source = cache.pin(1, tile(0));
  ASSERT_NE(source, nullptr);
  cache.release(source);
  check_side_by_side(
      slow.on_copy_peer, [&] { EXPECT_NE(cache.pin(0, tile(0)), nullptr); },
      [&] {
        EXPECT_EQ(source->readers, 1);
        EXPECT_NE(cache.pin(1, tile(1)), nullptr);
      });
  EXPECT_EQ(cache.counters(0).l2_hits, 1);
}
TEST_F(TileSubmission, ToAPeerThatKeepsATileDoesNotHoldUpOtherDevices) {
  Replica* const source = cache.pin(0, tile(0));
  ASSERT_NE(source, nullptr);
  cache.release(source);
  KeptTile kept;
  const int peers[] = {1};
  check_side_by_side(
      slow.on_copy_to_peer, [&] { EXPECT_EQ(cache.keep(0, tile(0), nullptr, true, peers, 0, kept), Keep::begun); },
      [&] {
        EXPECT_EQ(source->readers, 1);
        EXPECT_NE(cache.pin(1, tile(1)), nullptr);
      });
  EXPECT_EQ(cache.counters(0).bytes_kept, static_cast<std::int64_t>(tile_bytes));
}

// The second device comes during the submission or after it.
TEST_F(TileSubmission, IsAwaitedByWhoWantsTheSameTile) {
  for (std::uintptr_t round = 0; round < 3; ++round) {
    std::promise<void> submitting, wanted;
    std::atomic<bool> has_been_taken = false;
    slow.on_copy_up = [&] {
      submitting.set_value();
      wanted.get_future().wait();
      for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
      has_been_taken = true;
    };
    other.on_copy_peer = [&] { EXPECT_TRUE(has_been_taken); };
    Replica *first = nullptr, *second = nullptr;
    std::thread fetching([&] { first = cache.pin(0, tile(round)); });
    submitting.get_future().wait();
    std::thread copying([&] {
      wanted.set_value();
      second = cache.pin(1, tile(round));
    });
    fetching.join();
    copying.join();
    ASSERT_TRUE(first != nullptr && second != nullptr);
    EXPECT_NE(first->ready, nullptr);
    EXPECT_EQ(first->readers, 2);  // the pin, and the copy out of it
  }
  EXPECT_EQ(cache.counters(0).misses, 3);
  EXPECT_EQ(cache.counters(1).misses, 0);
  EXPECT_EQ(cache.counters(1).l2_hits, 3);
  cache.check_invariants();
}

TEST_F(TileSubmission, LeavesTheTileToOthersWhenItFails) {
  std::promise<void> submitting, wanted;
  slow.on_copy_up = [&] {
    submitting.set_value();
    wanted.get_future().wait();
    for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
    throw WorkRefused("not now");
  };
  std::thread fetching([&] { EXPECT_THROW(cache.pin(0, tile(0)), WorkRefused); });
  submitting.get_future().wait();
  Replica* second = nullptr;
  std::thread copying([&] {
    wanted.set_value();
    second = cache.pin(1, tile(0));
  });
  fetching.join();
  copying.join();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(cache.counters(1).misses, 1);
  EXPECT_EQ(cache.locate(0, tile(0)), Level::l2);
  cache.check_invariants();
}

}  // namespace tile_submission_test
}  // namespace tessera::cache
