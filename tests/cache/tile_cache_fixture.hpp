// A tile cache over host devices, and a host matrix of small tiles.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "cache/tile_cache.hpp"
#include "tests/device/backends.hpp"

namespace tessera::cache {

inline constexpr index_t rows = 8;
inline constexpr index_t cols = 4;
inline constexpr index_t ld = 11;
inline constexpr std::size_t tile_bytes = rows * cols * sizeof(double);  // 256: one heap unit
inline constexpr std::size_t tile_count = 32;

class TileCacheTest : public ::testing::Test {
 protected:
  void open(int devices, index_t slots, const HostDeviceSettings& settings = {}) {
    opened_ = test::open_host_devices(devices, std::vector(static_cast<std::size_t>(devices), settings));
    std::vector<CacheDevice> places;
    for (auto& accelerator : opened_.accelerators) {
      const std::size_t bytes = static_cast<std::size_t>(slots) * tile_bytes;
      places.push_back({accelerator.device.get(), accelerator.device->reserve(bytes), bytes});
    }
    cache_.emplace(places);
    cache_->begin_job(tile_bytes, sizeof(double));
    host_.resize(static_cast<std::size_t>(ld * cols) * tile_count);
    for (std::size_t e = 0; e < host_.size(); ++e) host_[e] = static_cast<double>(e);
  }

  device::EventPtr write_back(Replica* output) {
    bool begun = false;
    auto done = cache_->write_back(output, 0, begun);
    EXPECT_TRUE(begun);
    return done;
  }

  HostTile tile(std::size_t number) {
    return {reinterpret_cast<std::byte*>(host_.data() + number * ld * cols), rows, cols, ld};
  }

  // Waits until the replica has arrived and compares it with the host tile, element by element.
  void expect_contents(const Replica& replica) {
    ASSERT_EQ(test::wait_for(replica.ready), device::EventStatus::complete);
    for (index_t j = 0; j < cols; ++j) {
      EXPECT_EQ(std::memcmp(replica.address + j * rows * 8, replica.tile.address + j * ld * 8, rows * 8), 0);
    }
  }

  // Outlives the devices, whose streams may still be copying when a test ends.
  std::vector<double> host_;
  test::OpenedDevices opened_;
  std::optional<TileCache> cache_;
};

}  // namespace tessera::cache
