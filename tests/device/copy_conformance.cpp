// The requirements on copies of every device, by a model of them: only the block is moved, and copies keep their order.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <ostream>
#include <random>
#include <vector>

#include "core/error.hpp"
#include "device/scattered_columns.hpp"
#include "tests/device/backends.hpp"
#include "tests/device/slab_contents.hpp"

namespace tessera {
namespace copy_conformance {

using device::Block;
using device::Device;
using device::EventPtr;
using device::EventStatus;
using device::Extent;
using device::StreamId;
using device::StreamKind;
using test::Bytes;
using test::fill_slab;
using test::finish;
using test::model_copy;
using test::pin_if;
using test::random_bytes;
using test::slab_contents;
using test::wait_for;

constexpr StreamId up{StreamKind::up, 0};
constexpr StreamId down{StreamKind::down, 0};
constexpr StreamId peer{StreamKind::peer, 0};
constexpr StreamId to_peer{StreamKind::to_peer, 0};

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

class CopyConformance : public ::testing::TestWithParam<test::BackendParam> {};

TEST_P(CopyConformance, CopyUpTouchesOnlyTheBlock) {
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

TEST_P(CopyConformance, CopyDownTouchesOnlyTheBlock) {
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
TEST_P(CopyConformance, ScatteredColumnsTakeTheirTurn) {
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
TEST_P(CopyConformance, LargeTrianglesTakeTheirTurn) {
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

TEST_P(CopyConformance, CopiesBetweenPeersTouchOnlyTheBlock) {
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

TEST_P(CopyConformance, EmptyCopiesAreNothing) {
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

TEST_P(CopyConformance, RandomCopiesAgreeWithAModel) {
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

TESSERA_INSTANTIATE_BACKENDS(CopyConformance);

}  // namespace copy_conformance
}  // namespace tessera
