#include "device/staging.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

#include "core/host_copy.hpp"
#include "core/thread.hpp"

namespace tessera::device {
std::vector<StagedPiece> staged_pieces(Extent extent, index_t slot_bytes) {
  std::vector<StagedPiece> pieces;
  const index_t columns = std::max<index_t>(1, slot_bytes / std::max<index_t>(1, extent.column_bytes));
  for (index_t column = 0; column < extent.columns; column += columns) {
    const index_t count = std::min(columns, extent.columns - column);
    const index_t first = extent.first_byte(column);
    const index_t last = extent.last_byte(column + count - 1);
    if (count > 1 || last - first <= slot_bytes) {
      pieces.push_back({column, count, first, last});
      continue;
    }
    for (index_t begin = first; begin < last; begin += slot_bytes) {
      pieces.push_back({column, 1, begin, std::min(begin + slot_bytes, last)});
    }
  }
  return pieces;
}

namespace {

/// For slices of rows: the bytes of each column per slice.
index_t slice_bytes(Extent extent, index_t slot_bytes) {
  const index_t unit = extent.element_bytes;
  return std::min(slot_bytes / std::max<index_t>(1, extent.columns) / unit * unit, extent.column_bytes);
}

}  // namespace

bool can_stage_slices(Extent extent, SliceKind kind, index_t slot_bytes) {
  // Shorter runs would write parts of cache lines, and leave each page too soon.
  constexpr index_t shortest = 512;
  switch (kind) {
    case SliceKind::columns:
      return extent.column_bytes <= slot_bytes;
    case SliceKind::rows:
      return extent.part == Part::full && slice_bytes(extent, slot_bytes) >= std::min(shortest, extent.column_bytes);
    case SliceKind::none:
      break;
  }
  return false;
}

std::vector<StagedPiece> staged_slices(Extent extent, SliceKind kind, index_t slot_bytes) {
  if (kind == SliceKind::columns) return staged_pieces(extent, slot_bytes);
  std::vector<StagedPiece> pieces;
  const index_t rows = slice_bytes(extent, slot_bytes);
  for (index_t first = 0; first < extent.column_bytes; first += rows)
    pieces.push_back({0, extent.columns, first, std::min(first + rows, extent.column_bytes)});
  return pieces;
}

std::vector<StagedPart> staged_parts(const StagedPiece& piece, Extent extent) {
  if (extent.part == Part::full || piece.columns == 1) {
    return {{{piece.pitch_bytes(), piece.columns}, piece.column, piece.first}};
  }
  const index_t side_bytes = piece.columns * extent.element_bytes;
  const index_t diagonal = piece.column * extent.element_bytes;
  std::vector<StagedPart> parts = {
      {{side_bytes, piece.columns, extent.part, extent.element_bytes}, piece.column, diagonal}};
  if (extent.part == Part::lower && diagonal + side_bytes < piece.last) {
    parts.push_back({{piece.last - diagonal - side_bytes, piece.columns}, piece.column, diagonal + side_bytes});
  }
  if (extent.part == Part::upper && diagonal > 0) parts.push_back({{diagonal, piece.columns}, piece.column, 0});
  return parts;
}

std::vector<StagedShare> staged_shares(const StagedPiece& piece, index_t bytes) {
  std::vector<StagedShare> shares;
  const index_t pitch = piece.pitch_bytes();
  if (piece.columns == 1) {
    index_t begin = 0;
    do {  // at least one share: the last share to be carried ends the use of the slot
      const index_t end = std::min(begin + bytes, pitch);
      shares.push_back({{piece.column, 1, piece.first + begin, piece.first + end}, begin});
      begin = end;
    } while (begin < pitch);
    return shares;
  }
  const index_t columns = std::max<index_t>(1, bytes / std::max<index_t>(1, pitch));
  for (index_t j = 0; j < piece.columns; j += columns) {
    const index_t count = std::min(columns, piece.columns - j);
    shares.push_back({{piece.column + j, count, piece.first, piece.last}, j * pitch});
  }
  return shares;
}

StagingThreads::StagingThreads(int threads, int most_alone) : most_alone_(std::max(most_alone, 1)) {
  try {
    for (int t = 0; t < threads; ++t) {
      threads_.push_back(start_thread([this, t] {
        char name[16];
        std::snprintf(name, sizeof name, "ts-copy%d", t);
        pthread_setname_np(pthread_self(), name);
        serve();
      }));
    }
  } catch (const std::exception&) {
    if (static_cast<int>(threads_.size()) >= fewest) return;
    stop();
    throw;
  }
}

StagingThreads::~StagingThreads() { stop(); }

void StagingThreads::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (Thread& thread : threads_) thread.join();
}

StagingRing* StagingThreads::neediest() const {
  const bool only_one =
      std::count_if(rings_.begin(), rings_.end(), [](const StagingRing* ring) { return ring->is_in_use(); }) <= 1;
  StagingRing* found = nullptr;
  for (StagingRing* const ring : rings_) {
    if (ring->has_work(only_one ? std::max(most_alone_, ring->most_) : ring->most_) &&
        (found == nullptr || ring->occupied() < found->occupied()))
      found = ring;
  }
  return found;
}

void StagingThreads::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || neediest() != nullptr; });
    if (stopping_) return;
    neediest()->serve(lock);
  }
}

StagingRing::StagingRing(Direction direction, Slot* slots, std::byte* memory, std::size_t count, Sizes sizes,
                         StagingThreads& threads, int most)
    : direction_(direction),
      slots_(slots),
      memory_(memory),
      count_(count),
      sizes_(sizes),
      threads_(threads),
      most_(std::max(most, 1)) {
  const std::lock_guard lock(threads_.mutex_);
  threads_.rings_.push_back(this);
}

StagingRing::~StagingRing() {
  abandon();
  const std::lock_guard lock(threads_.mutex_);
  std::erase(threads_.rings_, this);
}

StagingRing::Use StagingRing::add(Block host, Extent extent, const StagedPiece& piece,
                                  const WrittenSlicesPtr& written) {
  const std::vector<StagedShare> shares = staged_shares(piece, sizes_.share);
  const auto common =
      std::make_shared<Piece>(Piece{.host = host, .extent = extent, .written = written, .left = shares.size()});
  if (written) common->slice_end = written->kind() == SliceKind::rows ? piece.last : piece.column + piece.columns;
  std::unique_lock lock(threads_.mutex_);
  const Use use{added_ % count_, static_cast<std::uint32_t>(added_ / count_ + 1)};
  common->use = use;
  common->gate = gates_;
  if (abandoned_.load(std::memory_order_relaxed)) {
    ++added_;
    finish(use);
    return use;
  }
  const std::size_t before = jobs_.size();
  try {
    for (const StagedShare& share : shares) jobs_.push_back({share, common});
  } catch (...) {
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(before), jobs_.end());
    throw;
  }
  ++added_;  // after the statements that may throw
  lock.unlock();
  for (std::size_t s = 0; s < shares.size(); ++s) threads_.changed_.notify_one();
  return use;
}

std::uint32_t StagingRing::add_gate() {
  const std::lock_guard lock(threads_.mutex_);
  return ++gates_;
}

void StagingRing::abandon() noexcept {
  std::unique_lock lock(threads_.mutex_);
  abandoned_.store(true, std::memory_order_relaxed);
  // A slice that has begun has all of its data in its slot.
  std::erase_if(jobs_, [](const Job& job) { return !job.piece->has_begun || !job.piece->written; });
  while (!jobs_.empty()) {
    const Job job = take_first();
    ++busy_;
    lock.unlock();
    carry(job);
    lock.lock();
    --busy_;
    note_carried(*job.piece);
  }
  threads_.changed_.notify_all();
  threads_.changed_.wait(lock, [&] { return busy_ == 0; });
  const std::uint64_t first = added_ - std::min<std::uint64_t>(added_, count_);
  for (std::uint64_t u = first; u < added_; ++u) finish({u % count_, static_cast<std::uint32_t>(u / count_ + 1)});
}

void StagingRing::serve(std::unique_lock<std::mutex>& lock) {
  ++busy_;
  const bool waits = !is_ready(*jobs_.front().piece);
  const Job job = waits ? jobs_.front() : take_first();
  if (waits) somebody_waits_ = true;
  // This thread may have left a ring that can use another thread, and this ring may have more work.
  if (threads_.neediest() != nullptr) threads_.changed_.notify_one();
  lock.unlock();
  waits ? await(*job.piece) : carry(job);
  lock.lock();
  --busy_;
  if (waits) {
    somebody_waits_ = false;
  } else {
    note_carried(*job.piece);
  }
  if (abandoned_.load(std::memory_order_relaxed)) threads_.changed_.notify_all();
}

StagingRing::Job StagingRing::take_first() {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  job.piece->has_begun = true;
  return job;
}

void StagingRing::note_carried(Piece& piece) {
  if (--piece.left > 0) return;
  if (piece.written) piece.written->note(piece.slice_end);
  if (!abandoned_.load(std::memory_order_relaxed)) finish(piece.use);
}

void StagingRing::finish(Use use) {
  Slot& slot = slots_[use.slot];
  std::atomic_ref(direction_ == Direction::up ? slot.filled : slot.emptied)
      .store(use.number, std::memory_order_release);
}

bool StagingRing::is_ready(const Piece& piece) const {
  // The numbers wrap around.
  const auto reached = [](std::uint32_t& number, std::uint32_t value) {
    return static_cast<std::int32_t>(std::atomic_ref(number).load(std::memory_order_acquire) - value) >= 0;
  };
  Slot& slot = slots_[piece.use.slot];
  return reached(slots_[0].gate, piece.gate) &&
         (direction_ == Direction::up ? reached(slot.emptied, piece.use.number - 1)
                                      : reached(slot.filled, piece.use.number));
}

void StagingRing::await(const Piece& piece) const {
  // A sleeping thread wakes some hundred microseconds late. In that time the device uses several slots.
  constexpr std::chrono::microseconds patience{300};
  const auto ended = [&] { return is_ready(piece) || abandoned_.load(std::memory_order_relaxed); };
  if (yield_until(ended, patience)) return;
  while (!ended()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void StagingRing::carry(const Job& job) const {
  const bool up = direction_ == Direction::up;
  const StagedPiece& piece = job.share.piece;
  const Block host = job.piece->host;
  const Extent extent = job.piece->extent;
  std::byte* packed = memory(job.piece->use.slot) + job.share.offset;
  for (index_t j = piece.column; j < piece.column + piece.columns; ++j, packed += piece.pitch_bytes()) {
    const index_t first = std::max(extent.first_byte(j), piece.first);
    const index_t last = std::min(extent.last_byte(j), piece.last);
    std::byte* const matrix = host.address + j * host.pitch_bytes + first;
    std::byte* const staged = packed + (first - piece.first);
    if (up) {
      copy_cached(staged, matrix, last - first);
    } else {
      copy_streaming(matrix, staged, last - first);
    }
  }
  if (!up) finish_streaming();
}

}  // namespace tessera::device
