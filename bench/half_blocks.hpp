// Of half_blocks what is compiled for each type by itself (half_blocks_of_type.cu): it has one to two hundred kernels.
#pragma once

#include <array>

#include "core/half.hpp"
#include "kernels/plan/half_blocks.hpp"

namespace tessera::bench {

/// The rows of the tables for a type.
struct HalfTables {
  std::array<kernels::plan::HalfBlocks, kernels::plan::half_sizes.size()> blocks;
  std::array<kernels::plan::TinyWay, kernels::plan::tiny_sizes.size()> tiny;
};

/// As they are.
inline HalfTables present_tables(HalfType type) {
  HalfTables tables{};
  for (std::size_t at = 0; at < tables.blocks.size(); ++at) tables.blocks[at] = kernels::plan::half_blocks(type, at);
  for (std::size_t at = 0; at < tables.tiny.size(); ++at) tables.tiny[at] = kernels::plan::tiny_way(type, at);
  return tables;
}

/// Measured on GPU 0. @throws std::runtime_error, also where candidates differ in a bit
template <HalfType type>
HalfTables measured_tables();

}  // namespace tessera::bench
