// Tables of measured choices: by type, rows of the triangle and columns of X.
#pragma once

#include <array>
#include <cstddef>

#include "core/scalar.hpp"

namespace tessera::kernels::plan {

/// Each size stands for sizes up to it and above the one before. The last stands for all larger ones, too.
inline constexpr std::array<index_t, 7> chosen_orders = {256, 512, 1024, 2048, 4096, 8192, 16384};
inline constexpr std::array<index_t, 6> chosen_columns = {1, 32, 128, 512, 2048, 8192};

template <class Choice>
using ChoiceTable = std::array<std::array<std::array<Choice, chosen_columns.size()>, chosen_orders.size()>, 4>;

template <std::size_t n>
constexpr std::size_t class_of(const std::array<index_t, n>& sizes, index_t size) {
  std::size_t i = 0;
  while (i + 1 < sizes.size() && sizes[i] < size) ++i;
  return i;
}

template <class Choice>
constexpr Choice choose(const ChoiceTable<Choice>& table, ScalarType type, index_t order, index_t columns) {
  return table[static_cast<std::size_t>(type)][class_of(chosen_orders, order)][class_of(chosen_columns, columns)];
}

}  // namespace tessera::kernels::plan
