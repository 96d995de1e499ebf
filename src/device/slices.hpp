// Blocks that are written slice by slice. A failure leaves whole slices: the first ones new, the others as they were.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/scalar.hpp"

namespace tessera::device {

/// The contents of a slice of a block: some of its columns, whole, or some of its rows.
enum class SliceKind : std::uint8_t { none, columns, rows };

/// The written part of a block, in whole slices from its first column or row on. Thread-safe.
class WrittenSlices {
 public:
  /// @param kind not none
  explicit WrittenSlices(SliceKind kind) : kind_(kind) {}

  SliceKind kind() const { return kind_; }
  /// Columns, or bytes of each column. The part beyond is as it was.
  /// @pre the copy has completed, or its device has recovered, which may have ended slices that had begun
  index_t end() const { return end_.load(std::memory_order_relaxed); }
  /// Notes that a slice which ends there has been written. Earlier slices have been written, or are being written; they
  /// are complete when the copy has ended or its device has recovered. That orders their writes before end().
  void note(index_t end) {
    index_t before = end_.load(std::memory_order_relaxed);
    while (before < end && !end_.compare_exchange_weak(before, end, std::memory_order_relaxed)) {
    }
  }

 private:
  const SliceKind kind_;
  std::atomic<index_t> end_{0};
};
using WrittenSlicesPtr = std::shared_ptr<WrittenSlices>;

}  // namespace tessera::device
