#include "residence/residence.hpp"

#include <algorithm>
#include <iterator>

namespace tessera::residence {
namespace {

/// The part of a matrix that some bytes lie in: of one column, or of whole columns.
Rectangle part_of(const HostMatrix& matrix, Range range) {
  const index_t begin = std::max<index_t>(range.begin - matrix.address, 0);
  const index_t end = std::min(range.end, range_of(matrix).end) - matrix.address;
  if (begin >= end) return {};
  const index_t first = begin / matrix.pitch_bytes, last = (end - 1) / matrix.pitch_bytes;
  if (first < last) return {0, first, matrix.column_bytes, last - first + 1};
  const index_t column = first * matrix.pitch_bytes;
  return common_part({begin - column, first, end - begin, 1}, {0, first, matrix.column_bytes, 1});
}

}  // namespace

std::optional<MatrixId> Residence::add(const HostMatrix& matrix) {
  const LockGuard lock(mutex_);
  const auto overlapped = first_overlapped(range_of(matrix));
  if (overlapped != known_.end() && overlapped->first < range_of(matrix).end) return std::nullopt;
  known_.emplace(matrix.address, std::pair(next_, matrix));
  return next_++;
}

void Residence::remove(MatrixId matrix) {
  const LockGuard lock(mutex_);
  for (Mirror* const mirror : mirrors_) mirror->drop(matrix);
  const auto known =
      std::find_if(known_.begin(), known_.end(), [&](const auto& each) { return each.second.first == matrix; });
  if (known != known_.end()) known_.erase(known);
}

std::optional<Residence::Place> Residence::place_of(device::Block host, device::Extent extent) const {
  const LockGuard lock(mutex_);
  const auto known = first_overlapped({host.address, host.address + 1});
  if (known == known_.end() || host.address < known->first || extent.bytes() == 0) return std::nullopt;
  const auto& [id, matrix] = known->second;
  if (extent.columns > 1 && host.pitch_bytes != matrix.pitch_bytes) return std::nullopt;
  const index_t offset = host.address - matrix.address;
  const Rectangle part{offset % matrix.pitch_bytes, offset / matrix.pitch_bytes, extent.column_bytes, extent.columns};
  if (part.end_byte() > matrix.column_bytes || part.end_column() > matrix.columns) return std::nullopt;
  return Place{id, part};
}

index_t Residence::resident_bytes(const HostMatrix& matrix) const {
  const Rectangle all{0, 0, matrix.column_bytes, matrix.columns};
  const auto place = place_of({matrix.address, matrix.pitch_bytes}, {all.column_bytes, all.columns});
  if (!place) return 0;
  const LockGuard lock(mutex_);
  index_t sum = 0;  // devices may have copies of the same
  for (const Mirror* const mirror : mirrors_) sum += mirror->resident_bytes(place->matrix, place->rectangle);
  return std::min(sum, all.bytes());
}

void Residence::attach(Mirror& mirror) {
  const LockGuard lock(mutex_);
  mirrors_.push_back(&mirror);
}

void Residence::detach(Mirror& mirror) {
  const LockGuard lock(mutex_);
  mirrors_.erase(std::remove(mirrors_.begin(), mirrors_.end(), &mirror), mirrors_.end());
}

void Residence::drop(Range written) {
  if (written.begin >= written.end) return;
  const LockGuard lock(mutex_);
  drop_known(written);
}

void Residence::clear() {
  const LockGuard lock(mutex_);
  for (Mirror* const mirror : mirrors_) mirror->clear();
}

void Residence::drop(device::Block host, device::Extent extent, const Mirror* told) {
  if (extent.bytes() == 0) return;
  if (const auto place = place_of(host, extent)) {
    const LockGuard lock(mutex_);
    for (Mirror* const mirror : mirrors_) {
      if (mirror != told) mirror->drop(place->matrix, place->rectangle);
    }
    return;
  }
  // It is no block of a matrix as that is known, and of what it overlaps no device may keep anything.
  const LockGuard lock(mutex_);
  drop_known({host.address, host.address + (extent.columns - 1) * host.pitch_bytes + extent.column_bytes});
}

void Residence::drop_known(Range written) {
  for (auto known = first_overlapped(written); known != known_.end() && known->first < written.end; ++known) {
    const Rectangle part = part_of(known->second.second, written);
    if (part.bytes() == 0) continue;
    for (Mirror* const mirror : mirrors_) mirror->drop(known->second.first, part);
  }
}

// The first known matrix that ends behind the beginning of the range; it may begin behind its end.
Residence::Known::const_iterator Residence::first_overlapped(Range range) const {
  auto known = known_.upper_bound(range.begin);
  if (known != known_.begin() && range_of(std::prev(known)->second.second).end > range.begin) --known;
  return known;
}

}  // namespace tessera::residence
