#include "device/staging.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

#include "core/thread.hpp"
#include "device/host_copy.hpp"

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

StagingRing::StagingRing(Direction direction, Slot* slots, std::byte* memory, std::size_t count, index_t slot_bytes,
                         int threads)
    : direction_(direction), slots_(slots), memory_(memory), count_(count), slot_bytes_(slot_bytes) {
  try {
    for (int t = 0; t < threads; ++t) {
      threads_.push_back(start_thread([this, t] {
        char name[16];
        std::snprintf(name, sizeof name, "ts-%s%d", direction_ == Direction::up ? "up" : "down", t);
        pthread_setname_np(pthread_self(), name);
        serve();
      }));
    }
  } catch (const std::exception&) {
    if (threads_.empty()) throw;  // else fewer do
  }
}

StagingRing::~StagingRing() {
  abandon();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

StagingRing::Use StagingRing::add(Block host, Extent extent, const StagedPiece& piece) {
  std::unique_lock lock(mutex_);
  const Use use{added_ % count_, static_cast<std::uint32_t>(added_ / count_ + 1)};
  if (abandoned_.load(std::memory_order_relaxed)) {
    ++added_;
    finish(use);
    return use;
  }
  jobs_.push_back({host, extent, piece, use, gates_});
  ++added_;  // after what may throw
  lock.unlock();
  changed_.notify_one();
  return use;
}

std::uint32_t StagingRing::add_gate() {
  const std::lock_guard lock(mutex_);
  return ++gates_;
}

void StagingRing::abandon() noexcept {
  std::unique_lock lock(mutex_);
  abandoned_.store(true, std::memory_order_relaxed);
  jobs_.clear();
  changed_.wait(lock, [&] { return busy_ == 0; });
  const std::uint64_t first = added_ - std::min<std::uint64_t>(added_, count_);
  for (std::uint64_t u = first; u < added_; ++u) finish({u % count_, static_cast<std::uint32_t>(u / count_ + 1)});
}

void StagingRing::finish(Use use) {
  Slot& slot = slots_[use.slot];
  std::atomic_ref(direction_ == Direction::up ? slot.filled : slot.emptied)
      .store(use.number, std::memory_order_release);
}

void StagingRing::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    ++busy_;
    lock.unlock();
    carry(job);
    lock.lock();
    --busy_;
    if (abandoned_.load(std::memory_order_relaxed)) changed_.notify_all();
  }
}

void StagingRing::carry(const Job& job) {
  const bool up = direction_ == Direction::up;
  Slot& slot = slots_[job.use.slot];
  if (!await(slots_[0].gate, job.gate)) return;
  if (!(up ? await(slot.emptied, job.use.number - 1) : await(slot.filled, job.use.number))) return;
  const StagedPiece& piece = job.piece;
  std::byte* packed = memory(job.use.slot);
  for (index_t j = piece.column; j < piece.column + piece.columns; ++j, packed += piece.pitch_bytes()) {
    const index_t first = std::max(job.extent.first_byte(j), piece.first);
    const index_t last = std::min(job.extent.last_byte(j), piece.last);
    std::byte* const host = job.host.address + j * job.host.pitch_bytes + first;
    std::byte* const staged = packed + (first - piece.first);
    if (up) {
      copy_cached(staged, host, last - first);
    } else {
      copy_streaming(host, staged, last - first);
    }
  }
  if (!up) finish_streaming();
  finish(job.use);
}

bool StagingRing::await(std::uint32_t& number, std::uint32_t value) const {
  const auto reached = [&] {
    // Numbers go round.
    return static_cast<std::int32_t>(std::atomic_ref(number).load(std::memory_order_acquire) - value) >= 0;
  };
  // A thread that sleeps comes back some hundred microseconds late, as long as the device needs for several slots.
  constexpr std::chrono::microseconds patience{300};
  const auto ended = [&] { return reached() || abandoned_.load(std::memory_order_relaxed); };
  if (!yield_until(ended, patience)) {
    while (!ended()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return reached();
}

}  // namespace tessera::device
