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

/// @return nullptr: it is not there
template <class Known>
auto* find_in(Known& known, MatrixId matrix) {
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const auto& each) { return each.second.id == matrix; });
  return found != known.end() ? &found->second : nullptr;
}

bool overlap(const HostMatrix& a, const HostMatrix& b) {
  return range_of(a).begin < range_of(b).end && range_of(b).begin < range_of(a).end;
}

}  // namespace

std::optional<MatrixId> Residence::add(const HostMatrix& matrix, Kind kind) {
  const LockGuard lock(mutex_);
  const Range range = range_of(matrix);
  for (auto known = first_overlapped(range); known != known_.end() && known->first < range.end;) {
    if (kind != Kind::lazy || known->second.kind == Kind::lazy) return std::nullopt;
    for (const Attached& each : mirrors_) each.mirror->drop(known->second.id);
    known = known_.erase(known);
  }
  known_.emplace(matrix.address, Matrix{next_, matrix, kind});
  if (kind == Kind::lazy) lazy_count_.fetch_add(1, std::memory_order_relaxed);
  return next_++;
}

void Residence::remove(MatrixId matrix) {
  const LockGuard lock(mutex_);
  for (const Attached& each : mirrors_) each.mirror->drop(matrix);
  const Matrix* const known = find(matrix);
  if (known == nullptr) return;
  if (known->kind == Kind::lazy) lazy_count_.fetch_sub(1, std::memory_order_relaxed);
  known_.erase(known->place.address);
}

const Residence::Matrix* Residence::find(MatrixId matrix) const { return find_in(known_, matrix); }
Residence::Matrix* Residence::find(MatrixId matrix) { return find_in(known_, matrix); }

std::vector<MatrixId> Residence::lazy_among(std::span<const HostMatrix> matrices) const {
  std::vector<MatrixId> lazy;
  if (!has_lazy()) return lazy;
  const LockGuard lock(mutex_);
  for (const HostMatrix& matrix : matrices) {
    const Range range = range_of(matrix);
    for (auto known = first_overlapped(range); known != known_.end() && known->first < range.end; ++known) {
      const Matrix& each = known->second;
      if (each.kind == Kind::lazy && std::find(lazy.begin(), lazy.end(), each.id) == lazy.end())
        lazy.push_back(each.id);
    }
  }
  return lazy;
}

bool Residence::are_blocks(std::span<const HostMatrix> matrices) const {
  return std::all_of(matrices.begin(), matrices.end(), [this](const HostMatrix& matrix) {
    if (lazy_among({&matrix, 1}).empty()) return true;
    const LockGuard lock(mutex_);
    Rectangle part;
    return find(block_of(matrix), {matrix.column_bytes, matrix.columns}, part) != nullptr;
  });
}

std::optional<HostMatrix> Residence::matrix_of(MatrixId matrix) const {
  const LockGuard lock(mutex_);
  const Matrix* const known = find(matrix);
  return known != nullptr ? std::optional(known->place) : std::nullopt;
}

void Residence::hold(MatrixId matrix, HostUse use) {
  const LockGuard lock(mutex_);
  Matrix* const known = find(matrix);
  if (known == nullptr) return;
  ++known->holders;
  known->writers += use == HostUse::writes ? 1 : 0;
}
void Residence::release(MatrixId matrix, HostUse use) {
  const LockGuard lock(mutex_);
  Matrix* const known = find(matrix);
  if (known == nullptr) return;
  --known->holders;
  known->writers -= use == HostUse::writes ? 1 : 0;
}
bool Residence::is_held(MatrixId matrix) const {
  const LockGuard lock(mutex_);
  const Matrix* const known = find(matrix);
  return known != nullptr && known->holders > 0;
}
bool Residence::is_stale(MatrixId matrix) const {
  const LockGuard lock(mutex_);
  return std::any_of(mirrors_.begin(), mirrors_.end(),
                     [&](const Attached& each) { return each.mirror->has_only_copies(matrix); });
}
void Residence::lose_overlapped(const HostMatrix& matrix) {
  const LockGuard lock(mutex_);
  for (auto& [address, each] : known_) {
    if (each.kind == Kind::lazy && overlap(each.place, matrix)) lose(each);
  }
}
bool Residence::overlaps_lost(const HostMatrix& matrix) const {
  const LockGuard lock(mutex_);
  return std::any_of(known_.begin(), known_.end(),
                     [&](const auto& each) { return each.second.is_lost && overlap(each.second.place, matrix); });
}
void Residence::lose_copies_of(Mirror& mirror) {
  const LockGuard lock(mutex_);
  for (auto& [address, matrix] : known_) {
    if (mirror.has_only_copies(matrix.id)) lose(matrix);
  }
  mirror.clear();
}
void Residence::lose(Matrix& matrix) {
  for (const Attached& each : mirrors_) each.mirror->drop(matrix.id);
  matrix.is_lost = true;
}
bool Residence::is_lost(MatrixId matrix) const {
  const LockGuard lock(mutex_);
  const Matrix* const known = find(matrix);
  return known != nullptr && known->is_lost;
}
void Residence::find_again(MatrixId matrix) {
  const LockGuard lock(mutex_);
  if (Matrix* const known = find(matrix)) known->is_lost = false;
}

std::vector<Residence::OnlyCopy> Residence::only_copies(MatrixId matrix, const Rectangle& rectangle) const {
  const LockGuard lock(mutex_);
  std::vector<OnlyCopy> copies;
  for (const Attached& each : mirrors_) {
    for (const Mirror::Piece& piece : each.mirror->only_copies(matrix, rectangle))
      copies.push_back({each.device, piece});
  }
  return copies;
}

void Residence::note_in_host_memory(MatrixId matrix) {
  const LockGuard lock(mutex_);
  for (const Attached& each : mirrors_) each.mirror->note_in_host_memory(matrix);
}

void Residence::note_use(std::span<const MatrixId> matrices) {
  const LockGuard lock(mutex_);
  ++uses_;
  for (const MatrixId matrix : matrices) {
    if (Matrix* const known = find(matrix)) known->last_use = uses_;
  }
}

std::optional<MatrixId> Residence::to_be_settled(std::span<const MatrixId> others) const {
  const LockGuard lock(mutex_);
  const Matrix* oldest = nullptr;
  for (const Attached& each : mirrors_) {
    if (!each.mirror->is_crowded()) continue;
    for (const auto& [address, matrix] : known_) {
      const bool is_other = std::find(others.begin(), others.end(), matrix.id) != others.end();
      if (is_other || (oldest != nullptr && oldest->last_use <= matrix.last_use)) continue;
      if (each.mirror->has_only_copies(matrix.id)) oldest = &matrix;
    }
  }
  return oldest != nullptr ? std::optional(oldest->id) : std::nullopt;
}

const Residence::Matrix* Residence::find(device::Block host, device::Extent extent, Rectangle& part) const {
  const auto known = first_overlapped({host.address, host.address + 1});
  if (known == known_.end() || host.address < known->first || extent.bytes() == 0) return nullptr;
  const HostMatrix& matrix = known->second.place;
  if (extent.columns > 1 && host.pitch_bytes != matrix.pitch_bytes) return nullptr;
  const index_t offset = host.address - matrix.address;
  part = {offset % matrix.pitch_bytes, offset / matrix.pitch_bytes, extent.column_bytes, extent.columns};
  if (part.end_byte() > matrix.column_bytes || part.end_column() > matrix.columns) return nullptr;
  return &known->second;
}

std::optional<Residence::Place> Residence::place_of(device::Block host, device::Extent extent) const {
  const LockGuard lock(mutex_);
  Rectangle part;
  const Matrix* const matrix = find(host, extent, part);
  if (matrix == nullptr || matrix->writers > 0) return std::nullopt;
  return Place{matrix->id, part, matrix->kind == Kind::lazy && matrix->holders == 0};
}

index_t Residence::resident_bytes(const HostMatrix& matrix) const {
  const auto place = place_of(block_of(matrix), {matrix.column_bytes, matrix.columns});
  if (!place) return 0;
  const LockGuard lock(mutex_);
  index_t sum = 0;  // devices may have copies of the same
  for (const Attached& each : mirrors_) sum += each.mirror->resident_bytes(place->matrix, place->rectangle);
  return std::min(sum, all_of(matrix).bytes());
}

void Residence::attach(Mirror& mirror, device::Device& device) {
  const LockGuard lock(mutex_);
  mirrors_.push_back({&mirror, &device});
}

void Residence::detach(Mirror& mirror) {
  const LockGuard lock(mutex_);
  std::erase_if(mirrors_, [&](const Attached& each) { return each.mirror == &mirror; });
}

void Residence::drop(Range written) {
  if (written.begin >= written.end) return;
  const LockGuard lock(mutex_);
  drop_known(written, true);
}

void Residence::clear() {
  const LockGuard lock(mutex_);
  for (const Attached& each : mirrors_) each.mirror->drop_copies();
}

void Residence::drop(device::Block host, device::Extent extent, const Mirror* told) {
  if (extent.bytes() == 0) return;
  const LockGuard lock(mutex_);
  Rectangle part;
  if (const Matrix* const matrix = find(host, extent, part)) {
    for (const Attached& each : mirrors_) {
      if (each.mirror != told) each.mirror->drop(matrix->id, part);
    }
    return;
  }
  // It is no block of a matrix as that is known, and of what it overlaps no device may keep anything.
  const Range range{host.address, host.address + (extent.columns - 1) * host.pitch_bytes + extent.column_bytes};
  drop_known(range, false);
}

void Residence::drop_known(Range written, bool spares_lazy) {
  for (auto known = first_overlapped(written); known != known_.end() && known->first < written.end; ++known) {
    const Rectangle part = part_of(known->second.place, written);
    if (part.bytes() == 0 || (spares_lazy && known->second.kind == Kind::lazy)) continue;
    for (const Attached& each : mirrors_) each.mirror->drop(known->second.id, part);
  }
}

// The first known matrix that ends behind the beginning of the range; it may begin behind its end.
Residence::Known::const_iterator Residence::first_overlapped(Range range) const {
  auto known = known_.upper_bound(range.begin);
  if (known != known_.begin() && range_of(std::prev(known)->second.place).end > range.begin) --known;
  return known;
}

}  // namespace tessera::residence
