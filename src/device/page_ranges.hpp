// The pages of host ranges. Pure arithmetic, for backends that page-lock host memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.hpp"

namespace tessera::device {

struct PageRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::size_t bytes() const { return end - begin; }
  bool operator==(const PageRange&) const = default;
};

/// The pages that the ranges touch: rounded outward, sorted, and merged where they overlap or touch. Operands may be
/// parts of one allocation or share a page, and a page can be locked only once. Empty ranges are dropped.
/// @param page_bytes a power of two
inline std::vector<PageRange> page_ranges(std::span<const HostRange> ranges, std::uintptr_t page_bytes) {
  std::vector<PageRange> pages;
  for (const HostRange& range : ranges) {
    const auto begin = reinterpret_cast<std::uintptr_t>(range.begin);
    const auto end = reinterpret_cast<std::uintptr_t>(range.end);
    if (begin >= end) continue;
    pages.push_back({begin & ~(page_bytes - 1), (end + page_bytes - 1) & ~(page_bytes - 1)});
  }
  std::sort(pages.begin(), pages.end(),
            [](const PageRange& left, const PageRange& right) { return left.begin < right.begin; });
  std::vector<PageRange> merged;
  for (const PageRange& range : pages) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

}  // namespace tessera::device
