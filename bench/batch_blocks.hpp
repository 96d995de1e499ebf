// Of batch_blocks what is compiled for each type by itself (batch_blocks_of_type.cu): it has some fifty kernels.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <ostream>
#include <string>

#include "core/scalar.hpp"
#include "kernels/plan/product_blocks.hpp"
#include "kernels/plan/sweep_strips.hpp"
#include "kernels/plan/vendor_batches.hpp"

namespace tessera::bench {

inline std::string text_of(std::initializer_list<int> numbers) {
  std::string text;
  for (const int number : numbers) {
    text += text.empty() ? "{" : ", ";
    text += std::to_string(number);
  }
  text += "}";
  return text;
}
inline std::string text_of(const kernels::plan::ProductBlocks& b) {
  if (b.problems == 1) return text_of({b.rows, b.columns, b.warps_down, b.warps_across, b.stages, b.residents});
  return text_of({b.rows, b.columns, b.warps_down, b.warps_across, b.stages, b.residents, b.problems});
}
inline std::string text_of(const kernels::plan::SweepStrips& s) {
  if (s.problems == 1) return text_of({s.warps, s.columns, s.residents});
  return text_of({s.warps, s.columns, s.residents, s.problems});
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

/// Measures the blocks of all candidates, and writes the line of the table for this type; and that of where cuBLAS is
/// sooner than the best of them.
template <ScalarType type>
void choose_blocks(std::ostream& table, std::ostream& vendor_table);

inline void keep_strips(std::ostream& table, bool is_solve, ScalarType type) {
  const char* separator = "{{";
  for (std::size_t at = 0; at < kernels::plan::block_sizes.size(); ++at) {
    table << separator << text_of(kernels::plan::sweep_strips(is_solve, type, at));
    separator = ", ";
  }
  table << "}},\n";
}
/// The same for the strips of triangular solves, or products.
template <ScalarType type>
void choose_strips(bool is_solve, std::ostream& table);

inline void keep_vendor(std::ostream& table, ScalarType type) {
  const char* separator = "{";
  for (const index_t size : kernels::plan::batch_sizes) {
    table << separator << (kernels::plan::vendor_is_sooner(type, size, size, size) ? "true" : "false");
    separator = ", ";
  }
  table << "},\n";
}

}  // namespace tessera::bench
