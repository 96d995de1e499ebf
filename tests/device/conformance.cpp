// The requirements on every device: one suite over host devices and CUDA GPUs. It checks the text of device/device.hpp.
// Copies are in copy_conformance.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/error.hpp"
#include "device/scattered_columns.hpp"
#include "tests/device/backends.hpp"
#include "tests/device/slab_contents.hpp"

namespace tessera {
namespace conformance {

using device::Device;
using device::EventPtr;
using device::EventStatus;
using device::HostRange;
using device::StreamId;
using device::StreamKind;
using test::Bytes;
using test::fill_slab;
using test::finish;
using test::model_copy;
using test::random_bytes;
using test::slab_contents;
using test::wait_for;

constexpr StreamId up{StreamKind::up, 0};
constexpr StreamId down{StreamKind::down, 0};
constexpr StreamId peer{StreamKind::peer, 0};
constexpr StreamId to_peer{StreamKind::to_peer, 0};

std::vector<StreamId> all_streams() {
  std::vector<StreamId> streams;
  for (int i = 0; i < device::compute_streams; ++i) streams.push_back({StreamKind::compute, i});
  streams.insert(streams.end(), {up, down, peer, to_peer});
  return streams;
}

constexpr index_t slab_bytes = index_t{1} << 20;

class DeviceConformance : public ::testing::TestWithParam<test::BackendParam> {};

TEST_P(DeviceConformance, InfoIsSensible) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  for (std::size_t d = 0; d < opened.size(); ++d) {
    const device::DeviceInfo& info = opened.device(d).info();
    EXPECT_EQ(info.backend, GetParam().kind == test::BackendParam::Kind::host ? "host" : "cuda");
    EXPECT_EQ(info.ordinal, static_cast<int>(d));
    EXPECT_FALSE(info.name.empty());
    EXPECT_GE(info.memory_bytes, static_cast<std::size_t>(slab_bytes));
    EXPECT_GT(opened.device(d).free_memory_bytes(), 0u);
    EXPECT_LE(opened.device(d).free_memory_bytes(), info.memory_bytes);
  }
}

TEST_P(DeviceConformance, SlabIsAlignedAndTooMuchIsRefused) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  for (std::size_t d = 0; d < opened.size(); ++d) {
    Device& device = opened.device(d);
    EXPECT_THROW(device.reserve(device.info().memory_bytes * 2), OutOfDeviceMemory);
    // A refusal leaves the device as it was.
    std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
    ASSERT_NE(slab, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slab) % 256, 0u);
    const Bytes contents = random_bytes(static_cast<std::size_t>(slab_bytes), 1);
    fill_slab(device, slab, contents);
    EXPECT_TRUE(slab_contents(device, slab, slab_bytes) == contents);
  }
}

// Memory is committed on request, keeps its contents while more is committed, and can be committed again after it was
// released; peers reach it.
TEST_P(DeviceConformance, MemoryIsCommittedAndGivenBack) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  // Several chunks of a GPU, and an end at no special multiple.
  const std::size_t whole =
      GetParam().kind == test::BackendParam::Kind::host ? std::size_t{3} << 20 : (std::size_t{600} << 20) + 4096;
  const auto bytes = static_cast<index_t>(whole);
  std::vector<std::byte*> slabs;
  for (std::size_t d = 0; d < opened.size(); ++d) {
    EXPECT_THROW(opened.device(d).reserve_addresses(opened.device(d).info().memory_bytes * 2), OutOfDeviceMemory);
    const std::size_t before = opened.device(d).free_memory_bytes();
    slabs.push_back(opened.device(d).reserve_addresses(whole));
    if (slabs.back() == nullptr) GTEST_SKIP() << "this driver maps no memory";
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slabs.back()) % 256, 0u);
    EXPECT_GT(opened.device(d).free_memory_bytes() + (std::size_t{64} << 20), before) << "addresses are not memory";
  }
  const Bytes contents = random_bytes(whole, 21);
  for (const bool again : {false, true}) {
    for (std::size_t d = 0; d < opened.size(); ++d) {
      Device& device = opened.device(d);
      const std::size_t free_bytes = device.free_memory_bytes();
      EXPECT_GE(device.commit(4096), 4096u);
      const Bytes first(contents.begin(), contents.begin() + 4096);
      fill_slab(device, slabs[d], first);
      EXPECT_GE(device.commit(whole), whole);
      EXPECT_LE(device.free_memory_bytes() + whole / 2, free_bytes);
      EXPECT_TRUE(slab_contents(device, slabs[d], 4096) == first) << again;
      fill_slab(device, slabs[d], contents);
      EXPECT_TRUE(slab_contents(device, slabs[d], bytes) == contents) << again;
    }
    for (std::size_t d = 1; d < opened.size(); ++d) {
      Device& device = opened.device(d);
      if (!device.can_access(opened.device(0))) continue;
      const Bytes zeros(whole);
      fill_slab(device, slabs[d], zeros);
      // In one piece, and in columns, across the edges of chunks.
      device.copy_peer({slabs[d], bytes}, opened.device(0), {slabs[0], bytes}, {bytes / 2, 1});
      const index_t pitch = index_t{1} << 19;
      const index_t half = bytes / 2 / pitch * pitch;
      device.copy_peer({slabs[d] + half, pitch}, opened.device(0), {slabs[0] + half, pitch},
                       {pitch - 64, (bytes - half) / pitch});
      ASSERT_EQ(finish(device, peer), EventStatus::complete);
      Bytes expected = zeros;
      std::copy_n(contents.begin(), bytes / 2, expected.begin());
      model_copy(expected.data() + half, pitch, contents.data() + half, pitch, {pitch - 64, (bytes - half) / pitch});
      EXPECT_TRUE(slab_contents(device, slabs[d], bytes) == expected);
    }
    for (std::size_t d = 0; d < opened.size(); ++d) {
      const std::size_t before = opened.device(d).free_memory_bytes();
      EXPECT_LE(opened.device(d).decommit(4096), std::size_t{256} << 20);
      EXPECT_TRUE(slab_contents(opened.device(d), slabs[d], 4096) == Bytes(contents.begin(), contents.begin() + 4096));
      EXPECT_EQ(opened.device(d).decommit(0), 0u);
      EXPECT_GE(opened.device(d).free_memory_bytes(), before + whole / 2);
    }
  }
}

// Memory beside the slab holds what is copied there and back within the device, and goes back by itself.
TEST_P(DeviceConformance, MemoryBesideTheSlab) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  constexpr std::size_t whole = std::size_t{3} << 20;
  std::byte* const slab = device.reserve(whole);
  EXPECT_EQ(device.take_memory(device.info().memory_bytes * 2), nullptr);
  const std::size_t before = device.free_memory_bytes();
  std::byte* const beside = device.take_memory(whole);
  if (beside == nullptr) GTEST_SKIP() << "this driver maps no memory";
  EXPECT_LE(device.free_memory_bytes() + whole, before);
  const Bytes contents = random_bytes(whole, 5);
  Bytes expected = contents;
  const auto bytes = static_cast<index_t>(whole);
  for (const StreamKind stream : {StreamKind::up, StreamKind::down}) {
    fill_slab(device, slab, contents);
    device.copy_within(stream, {beside, bytes}, {slab, bytes}, {bytes, 1});
    ASSERT_EQ(finish(device, {stream}), EventStatus::complete);
    fill_slab(device, slab, Bytes(whole));
    // All of it, and some columns of another pitch.
    device.copy_within(stream, {slab, bytes}, {beside, bytes}, {bytes, 1});
    device.copy_within(stream, {slab + 64, 4096}, {beside + 128, 1024}, {1000, 16});
    ASSERT_EQ(finish(device, {stream}), EventStatus::complete);
    expected = contents;
    model_copy(expected.data() + 64, 4096, contents.data() + 128, 1024, {1000, 16});
    EXPECT_TRUE(slab_contents(device, slab, bytes) == expected);
  }
  device.free_memory(beside);
  EXPECT_GE(device.free_memory_bytes() + whole, before);
  EXPECT_NE(device.take_memory(whole), nullptr) << "what is left is freed with the device";
}

// Copies within the device follow a copy down that may have been staged. An event behind them is behind them all: their
// source may be overwritten then.
TEST_P(DeviceConformance, CopiesWithinEndBeforeTheEventBehindThem) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  constexpr std::size_t half = std::size_t{3} << 19;
  constexpr auto bytes = static_cast<index_t>(half);
  std::byte* const slab = device.reserve(2 * half);
  Bytes contents = random_bytes(2 * half, 6);
  fill_slab(device, slab, contents);
  EXPECT_TRUE(slab_contents(device, slab, 2 * bytes) == contents);
  for (int copy = 0; copy < 200; ++copy)
    device.copy_within(StreamKind::down, {slab + half, bytes}, {slab, bytes}, {bytes, 1});
  ASSERT_EQ(wait_for(device.record(down)), EventStatus::complete);
  Bytes zeros(half);
  device.copy_up({slab, bytes}, {zeros.data(), bytes}, {bytes, 1});
  ASSERT_EQ(finish(device, up), EventStatus::complete);
  std::copy_n(contents.begin(), half, contents.begin() + bytes);
  std::copy(zeros.begin(), zeros.end(), contents.begin());
  EXPECT_TRUE(slab_contents(device, slab, 2 * bytes) == contents);
}

TEST_P(DeviceConformance, AStreamRunsInOrder) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  // Two hundred copies to the same place: the last one must win, for any sizes.
  const index_t bytes = 64 << 10;
  std::vector<Bytes> values;
  for (std::uint32_t i = 0; i < 200; ++i)
    values.push_back(random_bytes(static_cast<std::size_t>(i % 2 ? bytes : bytes / 64), i));
  Bytes expected(static_cast<std::size_t>(bytes));
  fill_slab(device, slab, expected);
  for (Bytes& value : values) {
    const auto size = static_cast<index_t>(value.size());
    device.copy_up({slab, size}, {value.data(), size}, {size, 1});
    std::copy(value.begin(), value.end(), expected.begin());
  }
  ASSERT_EQ(finish(device, up), EventStatus::complete);
  EXPECT_TRUE(slab_contents(device, slab, bytes) == expected);
}

TEST_P(DeviceConformance, EventsOrderStreamsOfOneDevice) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  const index_t bytes = slab_bytes;
  // A value goes up, through every compute stream, and down again, ordered by events only. Then the next value
  // overwrites it, ordered after the download.
  constexpr std::uint32_t rounds = 20;
  std::vector<Bytes> sent, received;
  EventPtr last;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    sent.push_back(random_bytes(static_cast<std::size_t>(bytes), i));
    received.emplace_back(static_cast<std::size_t>(bytes));
  }
  for (std::uint32_t i = 0; i < rounds; ++i) {
    if (last) device.wait(up, last);
    device.copy_up({slab, bytes}, {sent[i].data(), bytes}, {bytes, 1});
    EventPtr event = device.record(up);
    for (int s = 0; s < device::compute_streams; ++s) {
      device.wait({StreamKind::compute, s}, event);
      event = device.record({StreamKind::compute, s});
    }
    device.wait(down, event);
    device.copy_down({received[i].data(), bytes}, {slab, bytes}, {bytes, 1});
    last = device.record(down);
  }
  ASSERT_EQ(wait_for(last), EventStatus::complete);
  for (std::uint32_t i = 0; i < rounds; ++i) EXPECT_TRUE(sent[i] == received[i]) << "round " << i;
}

TEST_P(DeviceConformance, EventsOrderStreamsOfSeveralDevices) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::vector<std::byte*> slabs;
  for (std::size_t d = 0; d < opened.size(); ++d)
    slabs.push_back(opened.device(d).reserve(static_cast<std::size_t>(slab_bytes)));
  const index_t bytes = slab_bytes;
  // Up to the first device, from device to device (through the host if they cannot reach each other), down from the
  // last one.
  constexpr std::uint32_t rounds = 10;
  std::vector<Bytes> sent, received, between;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    sent.push_back(random_bytes(static_cast<std::size_t>(bytes), 100 + i));
    received.emplace_back(static_cast<std::size_t>(bytes));
    for (std::size_t d = 1; d < opened.size(); ++d) between.emplace_back(static_cast<std::size_t>(bytes));
  }
  std::size_t next_between = 0;
  EventPtr last;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    Device& first = opened.device(0);
    if (last) first.wait(up, last);
    first.copy_up({slabs[0], bytes}, {sent[i].data(), bytes}, {bytes, 1});
    EventPtr event = first.record(up);
    for (std::size_t d = 1; d < opened.size(); ++d) {
      Device& device = opened.device(d);
      Device& source = opened.device(d - 1);
      Bytes& through = between[next_between++];
      if (device.can_access(source) && i % 2 == 1) {
        source.wait(to_peer, event);
        source.copy_to_peer(device, {slabs[d], bytes}, {slabs[d - 1], bytes}, {bytes, 1});
        event = source.record(to_peer);
      } else if (device.can_access(source)) {
        device.wait(peer, event);
        device.copy_peer({slabs[d], bytes}, source, {slabs[d - 1], bytes}, {bytes, 1});
        event = device.record(peer);
      } else {
        source.wait(down, event);
        source.copy_down({through.data(), bytes}, {slabs[d - 1], bytes}, {bytes, 1});
        device.wait(up, source.record(down));
        device.copy_up({slabs[d], bytes}, {through.data(), bytes}, {bytes, 1});
        event = device.record(up);
      }
    }
    Device& end = opened.device(opened.size() - 1);
    end.wait(down, event);
    end.copy_down({received[i].data(), bytes}, {slabs.back(), bytes}, {bytes, 1});
    last = end.record(down);
  }
  ASSERT_EQ(wait_for(last), EventStatus::complete);
  for (std::uint32_t i = 0; i < rounds; ++i) EXPECT_TRUE(sent[i] == received[i]) << "round " << i;
}

TEST_P(DeviceConformance, EventsOfIdleStreamsCompleteByThemselves) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  for (std::size_t d = 0; d < opened.size(); ++d) {
    for (const StreamId stream : all_streams()) EXPECT_EQ(finish(opened.device(d), stream), EventStatus::complete);
  }
}

TEST_P(DeviceConformance, WaitingForACompleteEventChangesNothing) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const EventPtr event = opened.device(0).record(up);
  ASSERT_EQ(wait_for(event), EventStatus::complete);
  for (std::size_t d = 0; d < opened.size(); ++d) {
    for (const StreamId stream : all_streams()) {
      opened.device(d).wait(stream, event);
      EXPECT_EQ(finish(opened.device(d), stream), EventStatus::complete);
    }
  }
}

TEST_P(DeviceConformance, CompletionTimesAreMonotoneAndOrderedByEvents) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  Bytes host = random_bytes(static_cast<std::size_t>(slab_bytes), 10);
  Bytes back(static_cast<std::size_t>(slab_bytes));
  // A GPU's clock is related to the host's by one measurement; neither may be off by more than a millisecond.
  const double slack = GetParam().kind == test::BackendParam::Kind::host ? 0 : 1e-3;
  const double start = device::now_seconds();
  std::vector<EventPtr> events;
  for (int i = 0; i < 50; ++i) {
    events.push_back(device.record(up));
    device.copy_up({slab, slab_bytes}, {host.data(), slab_bytes}, {slab_bytes, 1});
    events.push_back(device.record(up));
    device.wait(down, events.back());
    device.copy_down({back.data(), slab_bytes}, {slab, slab_bytes}, {slab_bytes, 1});
    events.push_back(device.record(down));
    device.wait(up, events.back());
  }
  ASSERT_EQ(wait_for(events.back()), EventStatus::complete);
  const double end = device::now_seconds();
  double latest = start - slack;
  for (const EventPtr& event : events) {
    ASSERT_EQ(event->status(), EventStatus::complete);
    EXPECT_GE(event->completed_at(), latest);
    latest = event->completed_at();
    EXPECT_EQ(event->completed_at(), latest);  // and it stays the same
  }
  EXPECT_LE(latest, end + slack);
  EXPECT_TRUE(back == host);
}

TEST_P(DeviceConformance, ManyThousandsOfEvents) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  constexpr std::size_t count = 20000;
  std::vector<EventPtr> events;
  const std::vector<StreamId> streams = all_streams();
  for (std::size_t i = 0; i < count; ++i) {
    Device& device = opened.device(i % opened.size());
    const StreamId stream = streams[i % streams.size()];
    if (i % 5 == 0 && i > 0) device.wait(stream, events[i - 1]);
    events.push_back(device.record(stream));
  }
  for (const EventPtr& event : events) ASSERT_EQ(wait_for(event), EventStatus::complete);
  // The device may reuse released events. A second wave must not disturb the holder of an old event.
  const double time = events.back()->completed_at();
  const EventPtr kept = events.back();
  events.clear();
  for (std::size_t i = 0; i < count; ++i) events.push_back(opened.device(0).record(up));
  ASSERT_EQ(wait_for(events.back()), EventStatus::complete);
  EXPECT_EQ(kept->status(), EventStatus::complete);
  EXPECT_EQ(kept->completed_at(), time);
}

TEST_P(DeviceConformance, AnEventOutlivesItsDevice) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  const EventPtr event = opened.device(0).record(up);
  ASSERT_EQ(wait_for(event), EventStatus::complete);
  opened.accelerators.clear();
  EXPECT_EQ(event->status(), EventStatus::complete);
}

TEST_P(DeviceConformance, PinningIsIdempotentAndUndoesItself) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  Bytes memory = random_bytes(static_cast<std::size_t>(2 * slab_bytes), 11);
  const std::byte* const begin = memory.data();
  const auto copies_work = [&] {
    device.copy_up({slab, slab_bytes}, {memory.data() + 100, slab_bytes}, {slab_bytes, 1});
    ASSERT_EQ(finish(device, up), EventStatus::complete);
    EXPECT_TRUE(slab_contents(device, slab, slab_bytes) == Bytes(begin + 100, begin + 100 + slab_bytes));
  };
  const std::vector<HostRange> whole = {{begin, begin + memory.size()}};
  // Parts of one allocation that overlap, share pages, repeat each other, or are empty.
  const std::vector<HostRange> parts = {{begin, begin + slab_bytes},
                                        {begin + slab_bytes / 2, begin + slab_bytes + 77},
                                        {begin + slab_bytes + 78, begin + slab_bytes + 99},
                                        {begin, begin + slab_bytes},
                                        {begin + 5, begin + 5}};
  // A GPU locks memory of this size, a host device none. Memory that is already locked would not be locked again.
  const bool locks = device.info().backend == "cuda";
  {
    const auto pinning = device.pin_host(parts);
    EXPECT_EQ(pinning != nullptr, locks);
    copies_work();
  }
  copies_work();
  {
    // Held twice: the end of the first pinning must not unlock memory that the second one covers, and the other way
    // round.
    auto first = device.pin_host(whole);
    auto second = device.pin_host(parts);
    copies_work();
    first.reset();
    copies_work();
    auto third = device.pin_host(whole);
    second.reset();
    copies_work();
  }
  // Again from the start, several times: nothing has stayed pinned.
  for (int i = 0; i < 10; ++i) {
    const auto pinning = device.pin_host(whole);
    EXPECT_EQ(pinning != nullptr, locks) << "round " << i;
    copies_work();
  }
  EXPECT_EQ(device.pin_host({}), nullptr);
}

TEST_P(DeviceConformance, ListenersHearOfCompletion) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  Bytes host = random_bytes(static_cast<std::size_t>(slab_bytes), 12);
  std::atomic<int> calls{0};
  if (!device.on_completion([&] { calls.fetch_add(1); })) {
    GTEST_SKIP() << "this device must be polled";
  }
  // A thread that sleeps until it is called is woken for every event.
  for (int i = 0; i < 100; ++i) {
    const int before = calls.load();
    device.copy_up({slab, slab_bytes}, {host.data(), slab_bytes}, {slab_bytes, 1});
    const EventPtr event = device.record(up);
    const double give_up = device::now_seconds() + 60;
    while (calls.load() == before && device::now_seconds() < give_up) std::this_thread::yield();
    ASSERT_GT(calls.load(), before) << "no call came";
    ASSERT_EQ(wait_for(event), EventStatus::complete);
  }
  // After the removal no call is running, so the listener's data may be destroyed.
  for (int i = 0; i < 1000; ++i) device.record({StreamKind::compute, i % device::compute_streams});
  EXPECT_TRUE(device.on_completion({}));
  const int after_removal = calls.load();
  for (int s = 0; s < device::compute_streams; ++s)
    EXPECT_EQ(finish(device, {StreamKind::compute, s}), EventStatus::complete);
  EXPECT_EQ(calls.load(), after_removal);
}

TEST_P(DeviceConformance, AGoodDeviceRecovers) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  Bytes host = random_bytes(static_cast<std::size_t>(slab_bytes), 13);
  device.copy_up({slab, slab_bytes}, {host.data(), slab_bytes}, {slab_bytes, 1});
  const EventPtr event = device.record(up);
  EXPECT_TRUE(device.recover());
  EXPECT_EQ(event->status(), EventStatus::complete) << "recover() waits for what was submitted";
  EXPECT_TRUE(slab_contents(device, slab, slab_bytes) == host);
}

TESSERA_INSTANTIATE_BACKENDS(DeviceConformance);

}  // namespace conformance
}  // namespace tessera
