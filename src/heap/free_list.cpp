#include "heap/free_list.hpp"

#include <algorithm>
#include <iterator>

#include "core/error.hpp"

namespace tessera::heap {

FreeList::FreeList(std::size_t capacity) : capacity_(capacity / alignment * alignment), free_bytes_(capacity_) {
  if (capacity_ == 0) return;
  segments_.push_back({0, capacity_, false});
  empty_.emplace(0, segments_.begin());
}

std::optional<std::size_t> FreeList::allocate(std::size_t bytes) {
  if (bytes > capacity_) return std::nullopt;
  const std::size_t wanted = std::max<std::size_t>((bytes + alignment - 1) / alignment, 1) * alignment;
  const auto found =
      std::find_if(empty_.begin(), empty_.end(), [&](const auto& e) { return e.second->bytes >= wanted; });
  if (found == empty_.end()) return std::nullopt;

  const Position segment = found->second;
  empty_.erase(found);
  if (segment->bytes > wanted) {
    const Position rest =
        segments_.insert(std::next(segment), {segment->offset + wanted, segment->bytes - wanted, false});
    empty_.emplace(rest->offset, rest);
    segment->bytes = wanted;
  }
  segment->occupied = true;
  occupied_.emplace(segment->offset, segment);
  free_bytes_ -= wanted;
  return segment->offset;
}

void FreeList::free(std::size_t offset) {
  const auto found = occupied_.find(offset);
  if (found == occupied_.end()) throw InternalError("heap: free of an offset that is not allocated");
  Position segment = found->second;
  occupied_.erase(found);
  segment->occupied = false;
  free_bytes_ += segment->bytes;

  if (const Position right = std::next(segment); right != segments_.end() && !right->occupied) {
    segment->bytes += right->bytes;
    empty_.erase(right->offset);
    segments_.erase(right);
  }
  if (segment != segments_.begin()) {
    if (const Position left = std::prev(segment); !left->occupied) {
      left->bytes += segment->bytes;
      segments_.erase(segment);
      return;  // `left` is in the empty list already
    }
  }
  empty_.emplace(segment->offset, segment);
}

std::size_t FreeList::largest_free_bytes() const {
  std::size_t largest = 0;
  for (const auto& [offset, segment] : empty_) largest = std::max(largest, segment->bytes);
  return largest;
}

void FreeList::check_invariants() const {
  std::size_t expected_offset = 0;
  std::size_t free_bytes = 0;
  bool left_is_free = false;
  for (auto segment = segments_.begin(); segment != segments_.end(); ++segment) {
    if (segment->offset != expected_offset) throw InternalError("heap: gap or overlap between segments");
    if (segment->bytes == 0) throw InternalError("heap: empty segment");
    if (!segment->occupied && left_is_free) throw InternalError("heap: two free neighbours");
    if (occupied_.contains(segment->offset) != segment->occupied) throw InternalError("heap: occupied list is wrong");
    if (empty_.contains(segment->offset) == segment->occupied) throw InternalError("heap: empty list is wrong");
    left_is_free = !segment->occupied;
    if (left_is_free) free_bytes += segment->bytes;
    expected_offset += segment->bytes;
  }
  if (expected_offset != capacity_) throw InternalError("heap: segments do not cover the slab");
  if (occupied_.size() + empty_.size() != segments_.size()) throw InternalError("heap: lists and segments disagree");
  if (free_bytes != free_bytes_) throw InternalError("heap: count of free bytes is wrong");
}

}  // namespace tessera::heap
