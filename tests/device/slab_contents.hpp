// The contents of a device's slab, and a model of the copies that change them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "device/device.hpp"
#include "tests/device/backends.hpp"

namespace tessera::test {

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(generator());
  return bytes;
}

/// Whether a copy moves byte i of column j. Determined element by element, independently of Extent's own functions.
inline bool is_moved(const device::Extent& extent, index_t i, index_t j) {
  const index_t row = i / extent.element_bytes;
  if (extent.part == Part::lower) return row >= j;
  if (extent.part == Part::upper) return row <= j;
  return true;
}

/// A model of the copy: column by column, and nothing else touched.
inline void model_copy(std::byte* to, index_t to_pitch, const std::byte* from, index_t from_pitch,
                       device::Extent extent) {
  for (index_t j = 0; j < extent.columns; ++j) {
    for (index_t i = 0; i < extent.column_bytes; ++i) {
      if (is_moved(extent, i, j)) to[j * to_pitch + i] = from[j * from_pitch + i];
    }
  }
}

/// Memory that is page-locked where the device can do that, or not.
inline std::unique_ptr<device::HostPinning> pin_if(bool pinned, device::Device& device, const Bytes& bytes) {
  const device::HostRange range{bytes.data(), bytes.data() + bytes.size()};
  return pinned ? device.pin_host({&range, 1}) : nullptr;
}

/// The first `bytes` of a slab, read back in one piece.
inline Bytes slab_contents(device::Device& device, std::byte* slab, index_t bytes) {
  Bytes contents(static_cast<std::size_t>(bytes));
  device.copy_down({contents.data(), bytes}, {slab, bytes}, {bytes, 1});
  EXPECT_EQ(finish(device, {device::StreamKind::down, 0}), device::EventStatus::complete);
  return contents;
}

inline void fill_slab(device::Device& device, std::byte* slab, const Bytes& contents) {
  const auto bytes = static_cast<index_t>(contents.size());
  Bytes copy = contents;
  device.copy_up({slab, bytes}, {copy.data(), bytes}, {bytes, 1});
  EXPECT_EQ(finish(device, {device::StreamKind::up, 0}), device::EventStatus::complete);
}

}  // namespace tessera::test
