// The requirements on every device: one suite over host devices and CUDA GPUs. It checks the text of device/device.hpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <ostream>
#include <random>
#include <vector>

#include "core/error.hpp"
#include "device/scattered_columns.hpp"
#include "tests/device/backends.hpp"

namespace tessera {
namespace conformance {

using device::Block;
using device::Device;
using device::EventPtr;
using device::EventStatus;
using device::Extent;
using device::HostRange;
using device::StreamId;
using device::StreamKind;
using test::finish;
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

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(generator());
  return bytes;
}

/// Whether a copy moves byte i of column j. Determined element by element, independently of Extent's own functions.
bool is_moved(const Extent& extent, index_t i, index_t j) {
  const index_t row = i / extent.element_bytes;
  if (extent.part == Part::lower) return row >= j;
  if (extent.part == Part::upper) return row <= j;
  return true;
}

/// A model of the copy: column by column, and nothing else touched.
void model_copy(std::byte* to, index_t to_pitch, const std::byte* from, index_t from_pitch, Extent extent) {
  for (index_t j = 0; j < extent.columns; ++j) {
    for (index_t i = 0; i < extent.column_bytes; ++i) {
      if (is_moved(extent, i, j)) to[j * to_pitch + i] = from[j * from_pitch + i];
    }
  }
}

/// Memory that is page-locked where the device can do that, or not.
std::unique_ptr<device::HostPinning> pin_if(bool pinned, Device& device, const Bytes& bytes) {
  const HostRange range{bytes.data(), bytes.data() + bytes.size()};
  return pinned ? device.pin_host({&range, 1}) : nullptr;
}

/// The first `bytes` of a slab, read back in one piece.
Bytes slab_contents(Device& device, std::byte* slab, index_t bytes) {
  Bytes contents(static_cast<std::size_t>(bytes));
  device.copy_down({contents.data(), bytes}, {slab, bytes}, {bytes, 1});
  EXPECT_EQ(finish(device, down), EventStatus::complete);
  return contents;
}

void fill_slab(Device& device, std::byte* slab, const Bytes& contents) {
  const auto bytes = static_cast<index_t>(contents.size());
  Bytes copy = contents;
  device.copy_up({slab, bytes}, {copy.data(), bytes}, {bytes, 1});
  EXPECT_EQ(finish(device, up), EventStatus::complete);
}

struct Shape {
  Extent extent;
  index_t host_pitch;
  index_t device_pitch;
  index_t other_pitch;

  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    const Extent& e = shape.extent;
    return out << (e.part == Part::full    ? ""
                   : e.part == Part::lower ? "lower triangle of "
                                           : "upper triangle of ")
               << e.column_bytes << " x " << e.columns << " with elements of " << e.element_bytes << ", pitches "
               << shape.host_pitch << ", " << shape.device_pitch << ", " << shape.other_pitch;
  }
};

/// Both triangles of square blocks. Columns are contiguous, or apart, also by odd numbers of elements.
std::vector<Shape> triangles() {
  std::vector<Shape> result;
  for (const Part part : {Part::lower, Part::upper}) {
    for (const index_t element : {index_t{4}, index_t{8}, index_t{16}}) {
      for (const index_t n : {index_t{1}, index_t{2}, index_t{7}, index_t{64}, index_t{65}, index_t{200}}) {
        const Extent extent{n * element, n, part, element};
        result.push_back({extent, (n + 3) * element, n * element, (n + 8) * element});
        result.push_back({extent, n * element, (n + 5) * element, n * element});
      }
    }
  }
  return result;
}

std::vector<Shape> shapes() {
  std::vector<Shape> all = {
      {{1, 1}, 1, 1, 1},
      {{1, 7}, 3, 2, 5},
      {{8, 1}, 8, 8, 8},
      {{24, 5}, 24, 24, 24},
      {{24, 5}, 40, 24, 32},
      {{37, 11}, 41, 53, 39},
      {{256, 3}, 264, 512, 256},
      {{1000, 129}, 1016, 1024, 1000},
      {{1024, 64}, 1024, 1024, 1024},
      {{4096, 17}, 4104, 4096, 8192},
  };
  const std::vector<Shape> more = triangles();
  all.insert(all.end(), more.begin(), more.end());
  return all;
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

TEST_P(DeviceConformance, CopyUpTouchesOnlyTheBlock) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  for (const Shape& shape : shapes()) {
    for (const bool pinned : {false, true}) {
      SCOPED_TRACE(::testing::Message() << shape << (pinned ? " pinned" : ""));
      const index_t offset = 512;
      const index_t used = 2 * offset + shape.device_pitch * shape.extent.columns;
      Bytes expected = random_bytes(static_cast<std::size_t>(used), 2);
      fill_slab(device, slab, expected);
      Bytes host = random_bytes(static_cast<std::size_t>(shape.host_pitch * shape.extent.columns), 3);
      {
        const auto pinning = pin_if(pinned, device, host);
        device.copy_up({slab + offset, shape.device_pitch}, {host.data(), shape.host_pitch}, shape.extent);
        ASSERT_EQ(finish(device, up), EventStatus::complete);
      }
      model_copy(expected.data() + offset, shape.device_pitch, host.data(), shape.host_pitch, shape.extent);
      EXPECT_TRUE(slab_contents(device, slab, used) == expected);
    }
  }
}

TEST_P(DeviceConformance, CopyDownTouchesOnlyTheBlock) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  for (const Shape& shape : shapes()) {
    for (const bool pinned : {false, true}) {
      SCOPED_TRACE(::testing::Message() << shape << (pinned ? " pinned" : ""));
      const Bytes contents = random_bytes(static_cast<std::size_t>(shape.device_pitch * shape.extent.columns), 4);
      fill_slab(device, slab, contents);
      // In a triangle, offsets are multiples of the element size.
      const index_t offset = shape.extent.part == Part::full ? 13 : shape.extent.element_bytes;
      Bytes host = random_bytes(static_cast<std::size_t>(2 * offset + shape.host_pitch * shape.extent.columns), 5);
      Bytes expected = host;
      {
        const auto pinning = pin_if(pinned, device, host);
        device.copy_down({host.data() + offset, shape.host_pitch}, {slab, shape.device_pitch}, shape.extent);
        ASSERT_EQ(finish(device, down), EventStatus::complete);
      }
      model_copy(expected.data() + offset, shape.host_pitch, contents.data(), shape.device_pitch, shape.extent);
      EXPECT_TRUE(host == expected);
      EXPECT_TRUE(slab_contents(device, slab, static_cast<index_t>(contents.size())) == contents);
    }
  }
}

// From page-locked memory a GPU's copy threads pack these columns; the copies before and after go by the copy engine.
// All keep their order.
TEST_P(DeviceConformance, ScatteredColumnsTakeTheirTurn) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  const bool host_only = GetParam().kind == test::BackendParam::Kind::host;
  const Extent scattered{520, host_only ? 50 : 2100};
  const index_t host_pitch = 8 * 520 + 8;
  const index_t device_pitch = 528;
  ASSERT_TRUE(host_only || device::are_scattered(device.info().profile.scattered, {nullptr, host_pitch}, scattered));
  const auto host_bytes = static_cast<std::size_t>(host_pitch * scattered.columns);
  const auto device_bytes = static_cast<std::size_t>(device_pitch * scattered.columns);
  std::byte* const slab = device.reserve(device_bytes);
  Bytes expected = random_bytes(device_bytes, 40);
  std::array<Bytes, 2> host{random_bytes(host_bytes, 41), random_bytes(host_bytes, 42)};
  const auto first = pin_if(true, device, host[0]);
  const auto second = pin_if(true, device, host[1]);
  fill_slab(device, slab, expected);
  const Extent part{device_pitch * 3, 1};
  const auto up_from = [&](Bytes& source, Extent extent) {
    device.copy_up({slab, device_pitch}, {source.data(), host_pitch}, extent);
    model_copy(expected.data(), device_pitch, source.data(), host_pitch, extent);
  };
  up_from(host[0], part);
  up_from(host[1], scattered);
  up_from(host[0], scattered);
  up_from(host[1], part);
  ASSERT_EQ(finish(device, up), EventStatus::complete);
  EXPECT_TRUE(slab_contents(device, slab, static_cast<index_t>(device_bytes)) == expected);

  Bytes result = host[1];
  for (const Extent extent : {scattered, part}) {
    device.copy_down({host[1].data(), host_pitch}, {slab, device_pitch}, extent);
    model_copy(result.data(), host_pitch, expected.data(), device_pitch, extent);
  }
  device.wait(up, device.record(down));
  device.copy_up({slab, device_pitch}, {host[1].data() + 8, host_pitch}, scattered);  // the contents just written
  ASSERT_EQ(finish(device, up), EventStatus::complete);
  EXPECT_TRUE(host[1] == result);
  model_copy(expected.data(), device_pitch, result.data() + 8, host_pitch, scattered);
  EXPECT_TRUE(slab_contents(device, slab, static_cast<index_t>(device_bytes)) == expected);
}

// Large enough that a GPU's copy engine and a kernel share a triangle. All its parts must come after earlier copies and
// before later ones.
TEST_P(DeviceConformance, LargeTrianglesTakeTheirTurn) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  const index_t element = 16;
  const index_t n = GetParam().kind == test::BackendParam::Kind::host ? 301 : 1301;
  const index_t pitch = (n + 2) * element;
  const index_t bytes = pitch * n;
  std::byte* const slab = device.reserve(static_cast<std::size_t>(bytes));
  const Extent full{n * element, n};
  const Extent corner{n * element / 2, n / 2};  // part of either triangle
  for (const Part part : {Part::lower, Part::upper}) {
    SCOPED_TRACE(part == Part::lower ? "lower" : "upper");
    const Extent triangle{n * element, n, part, element};
    std::array<Bytes, 3> host;
    Bytes expected = random_bytes(static_cast<std::size_t>(bytes), 30);
    for (Bytes& block : host) {
      block = expected;
      std::rotate(block.begin(), block.begin() + 1001 + (&block - host.data()), block.end());
    }
    std::vector<std::unique_ptr<device::HostPinning>> pinned;
    for (const Bytes& block : host) {
      pinned.push_back(pin_if(true, device, block));
      ASSERT_TRUE(pinned.back() != nullptr || GetParam().kind == test::BackendParam::Kind::host);
    }
    fill_slab(device, slab, expected);
    const std::array<Extent, 3> extents{full, triangle, corner};
    for (std::size_t i = 0; i < 3; ++i) {
      device.copy_up({slab, pitch}, {host[i].data(), pitch}, extents[i]);
      model_copy(expected.data(), pitch, host[i].data(), pitch, extents[i]);
    }
    ASSERT_EQ(finish(device, up), EventStatus::complete);
    EXPECT_TRUE(slab_contents(device, slab, bytes) == expected);

    // First all of the first block is copied down. After new contents from the second one the triangle is copied down.
    // Then it is changed on the device, which must not be visible.
    Bytes result = host[0];
    device.copy_down({host[0].data(), pitch}, {slab, pitch}, full);
    device.wait(up, device.record(down));
    device.copy_up({slab, pitch}, {host[1].data(), pitch}, full);
    device.wait(down, device.record(up));
    device.copy_down({host[0].data(), pitch}, {slab, pitch}, triangle);
    device.wait(up, device.record(down));
    device.copy_up({slab, pitch}, {host[2].data(), pitch}, full);
    ASSERT_EQ(finish(device, up), EventStatus::complete);
    model_copy(result.data(), pitch, expected.data(), pitch, full);
    model_copy(result.data(), pitch, host[1].data(), pitch, triangle);
    EXPECT_TRUE(host[0] == result);
  }
}

TEST_P(DeviceConformance, CopiesBetweenPeersTouchOnlyTheBlock) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  std::vector<std::byte*> slabs;
  for (std::size_t d = 0; d < opened.size(); ++d)
    slabs.push_back(opened.device(d).reserve(static_cast<std::size_t>(slab_bytes)));
  int pairs = 0;
  for (std::size_t to = 0; to < opened.size(); ++to) {
    for (std::size_t from = 0; from < opened.size(); ++from) {
      if (to == from || !opened.device(to).can_access(opened.device(from))) continue;
      ++pairs;
      for (const Shape& shape : shapes()) {
        SCOPED_TRACE(::testing::Message() << from << " -> " << to << ": " << shape);
        const Bytes source = random_bytes(static_cast<std::size_t>(shape.device_pitch * shape.extent.columns), 6);
        fill_slab(opened.device(from), slabs[from], source);
        const index_t offset = 256;
        const index_t used = 2 * offset + shape.other_pitch * shape.extent.columns;
        Bytes expected = random_bytes(static_cast<std::size_t>(used), 7);
        const Bytes before = expected;
        model_copy(expected.data() + offset, shape.other_pitch, source.data(), shape.device_pitch, shape.extent);
        // On the stream of the reading device, and on that of the writing one.
        for (const StreamId stream : {peer, to_peer}) {
          fill_slab(opened.device(to), slabs[to], before);
          const Block there{slabs[to] + offset, shape.other_pitch};
          const Block here{slabs[from], shape.device_pitch};
          const bool pulls = stream.kind == StreamKind::peer;
          if (pulls) opened.device(to).copy_peer(there, opened.device(from), here, shape.extent);
          if (!pulls) opened.device(from).copy_to_peer(opened.device(to), there, here, shape.extent);
          ASSERT_EQ(finish(opened.device(pulls ? to : from), stream), EventStatus::complete);
          EXPECT_TRUE(slab_contents(opened.device(to), slabs[to], used) == expected) << "pulls: " << pulls;
          EXPECT_TRUE(slab_contents(opened.device(from), slabs[from], static_cast<index_t>(source.size())) == source);
        }
      }
    }
  }
  if (GetParam().kind == test::BackendParam::Kind::host) {
    const int devices = GetParam().devices;
    EXPECT_EQ(pairs, devices * (devices - 1));
  } else if (pairs == 0) {
    GTEST_SKIP() << "no pair of these devices can access each other";
  }
}

TEST_P(DeviceConformance, EmptyCopiesAreNothing) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  Device& device = opened.device(0);
  std::byte* const slab = device.reserve(static_cast<std::size_t>(slab_bytes));
  const Bytes contents = random_bytes(4096, 8);
  fill_slab(device, slab, contents);
  Bytes host = random_bytes(4096, 9);
  const Bytes host_before = host;
  for (const Extent extent : {Extent{0, 4}, Extent{16, 0}, Extent{0, 0}}) {
    device.copy_up({slab, 64}, {host.data(), 64}, extent);
    device.copy_down({host.data(), 64}, {slab, 64}, extent);
  }
  EXPECT_EQ(finish(device, up), EventStatus::complete);
  EXPECT_EQ(finish(device, down), EventStatus::complete);
  EXPECT_TRUE(host == host_before);
  EXPECT_TRUE(slab_contents(device, slab, 4096) == contents);
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

TEST_P(DeviceConformance, RandomCopiesAgreeWithAModel) {
  TESSERA_OPEN_DEVICES(opened, GetParam());
  // Every device's slab and a host buffer, with random copies between them in one order: each copy waits for the event
  // of the one before.
  const index_t bytes = 1 << 16;
  std::mt19937 random(14);
  const auto draw = [&](index_t low, index_t high) {
    return std::uniform_int_distribution<index_t>(low, high)(random);
  };
  std::vector<std::byte*> slabs;
  std::vector<Bytes> models;
  for (std::size_t d = 0; d < opened.size(); ++d) {
    slabs.push_back(opened.device(d).reserve(static_cast<std::size_t>(bytes)));
    models.push_back(random_bytes(static_cast<std::size_t>(bytes), static_cast<std::uint32_t>(20 + d)));
    fill_slab(opened.device(d), slabs[d], models[d]);
  }
  Bytes host = random_bytes(static_cast<std::size_t>(bytes), 15);
  Bytes host_model = host;
  EventPtr last;
  for (int step = 0; step < 400; ++step) {
    const auto d = static_cast<std::size_t>(draw(0, static_cast<index_t>(opened.size()) - 1));
    const auto source = static_cast<std::size_t>(draw(0, static_cast<index_t>(opened.size()) - 1));
    Device& device = opened.device(d);
    const index_t columns = draw(1, 40);
    // Full blocks lie at any address; for triangles, all addresses and pitches are multiples of the element.
    const auto part = static_cast<Part>(draw(0, 2));
    const index_t element = part == Part::full ? 1 : index_t{4} << draw(0, 2);
    const auto draw_bytes = [&](index_t low, index_t high) { return draw(low / element, high / element) * element; };
    const Extent extent{part == Part::full ? draw(1, bytes / columns / 2) : columns * element, columns, part, element};
    const index_t to_pitch = draw_bytes(extent.column_bytes, bytes / columns);
    const index_t from_pitch = draw_bytes(extent.column_bytes, bytes / columns);
    const index_t to = draw_bytes(0, bytes - to_pitch * columns);
    const index_t from = draw_bytes(0, bytes - from_pitch * columns);
    const index_t kind = draw(0, 3);
    StreamId stream = up;
    if (kind == 0) {
      if (last) device.wait(stream, last);
      device.copy_up({slabs[d] + to, to_pitch}, {host.data() + from, from_pitch}, extent);
      model_copy(models[d].data() + to, to_pitch, host_model.data() + from, from_pitch, extent);
    } else if (kind == 1 || source == d || !device.can_access(opened.device(source))) {
      stream = down;
      if (last) device.wait(stream, last);
      device.copy_down({host.data() + to, to_pitch}, {slabs[d] + from, from_pitch}, extent);
      model_copy(host_model.data() + to, to_pitch, models[d].data() + from, from_pitch, extent);
    } else if (kind == 2) {
      stream = to_peer;
      if (last) device.wait(stream, last);
      device.copy_to_peer(opened.device(source), {slabs[source] + to, to_pitch}, {slabs[d] + from, from_pitch}, extent);
      model_copy(models[source].data() + to, to_pitch, models[d].data() + from, from_pitch, extent);
    } else {
      stream = peer;
      if (last) device.wait(stream, last);
      device.copy_peer({slabs[d] + to, to_pitch}, opened.device(source), {slabs[source] + from, from_pitch}, extent);
      model_copy(models[d].data() + to, to_pitch, models[source].data() + from, from_pitch, extent);
    }
    last = device.record(stream);
  }
  ASSERT_EQ(wait_for(last), EventStatus::complete);
  EXPECT_TRUE(host == host_model);
  for (std::size_t d = 0; d < opened.size(); ++d)
    EXPECT_TRUE(slab_contents(opened.device(d), slabs[d], bytes) == models[d]);
}

TESSERA_INSTANTIATE_BACKENDS(DeviceConformance);

}  // namespace conformance
}  // namespace tessera
