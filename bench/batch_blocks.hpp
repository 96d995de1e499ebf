// Of batch_blocks what is compiled for each type by itself (batch_blocks_of_type.cu): it has some fifty kernels.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>

#include "core/scalar.hpp"
#include "kernels/plan/product_blocks.hpp"

namespace tessera::bench {

inline std::string text_of(const kernels::plan::ProductBlocks& b) {
  const auto number = [](int value) { return std::to_string(value); };
  return "{" + number(b.rows) + ", " + number(b.columns) + ", " + number(b.warps_down) + ", " + number(b.warps_across) +
         ", " + number(b.stages) + ", " + number(b.residents) + (b.problems > 1 ? ", " + number(b.problems) : "") + "}";
}

/// The line of the table as it is.
inline void keep_blocks(std::ostream& table, ScalarType type) {
  const char* separator = "{{";
  for (std::size_t at = 0; at < kernels::plan::block_sizes.size(); ++at) {
    table << separator << text_of(kernels::plan::product_blocks(type, at));
    separator = ", ";
  }
  table << "}},\n";
}

/// Measures the blocks of all candidates, and writes the line of the table for this type.
template <ScalarType type>
void choose_blocks(std::ostream& table);

}  // namespace tessera::bench
