// Modelled devices whose rates, links and losses are drawn by lot.
#pragma once

#include <array>
#include <random>

#include "tests/modelled_run.hpp"

namespace tessera::test {

/// Draws one of its arguments.
inline auto drawing_with(std::minstd_rand& random) {
  return [&random](auto... values) {
    const std::array list{values...};
    return list[random() % list.size()];
  };
}

/// Devices that make no difference between tall and short tiles, and of which small calls use all.
inline ModelledMachine machine_for_small_tiles(int devices) {
  ModelledMachine machine;
  machine.devices = devices;
  machine.profile.segment_bytes = 0;
  machine.profile.share_bytes = 0;
  return machine;
}

/// Its devices differ, and may not reach each other. Kernels of half a millisecond, which are launched when their tiles
/// have come, and short ones.
inline void draw_unequal_devices(ModelledMachine& machine, std::minstd_rand& random) {
  const auto one_of = drawing_with(random);
  machine.flops = one_of(1e9, 1e10, 1e11, 1e12, 1e13);
  machine.link_bytes = one_of(1e9, 1e10, 5e10);
  for (int d = 0; d < machine.devices; ++d) machine.speeds.push_back(one_of(1.0, 1.0, 5.0, 0.2));
  machine.connected = one_of(true, false);
}

/// One of its devices is lost at some time.
inline void draw_loss(ModelledMachine& machine, std::minstd_rand& random) {
  machine.lost = static_cast<int>(random() % static_cast<unsigned>(machine.devices));
  machine.looks = static_cast<int>(1 + random() % 400);
}

}  // namespace tessera::test
