#include "runtime/devices/host_copies.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "core/host_copy.hpp"
#include "core/thread.hpp"

namespace tessera::runtime {
namespace {

/// Bytes that a thread copies at a time.
constexpr index_t piece_bytes = index_t{2} << 20;

std::size_t bytes_of(const cache::HostTile& tile, index_t element_bytes) {
  return static_cast<std::size_t>(std::max<index_t>(tile.rows * tile.cols * element_bytes, 1));
}

}  // namespace

/// Memory that was used before: the pages of new memory come one by one, which takes longer than the copy.
struct HostCopies::Pool {
  explicit Pool(std::size_t most) : most_bytes(most) {}

  const std::size_t most_bytes;
  Mutex mutex;
  std::vector<Memory> free TESSERA_GUARDED_BY(mutex);
  std::vector<Signal*> waiting TESSERA_GUARDED_BY(mutex);
  std::size_t ahead_bytes TESSERA_GUARDED_BY(mutex) = 0;  ///< used by copies made ahead
  std::size_t due_bytes TESSERA_GUARDED_BY(mutex) = 0;    ///< and by those that were due
  std::size_t held_bytes TESSERA_GUARDED_BY(mutex) = 0;   ///< used and free

  bool has_memory(std::size_t bytes, When when, Signal& changed) {
    const LockGuard lock(mutex);
    const std::size_t after = ahead_bytes + due_bytes + bytes;
    if (when == When::ahead) return after <= most_bytes / 2;
    if (due_bytes == 0 || after <= most_bytes) return true;
    if (std::find(waiting.begin(), waiting.end(), &changed) == waiting.end()) waiting.push_back(&changed);
    return false;
  }

  /// @throws std::bad_alloc
  Memory take(std::size_t bytes, When when) {
    const LockGuard lock(mutex);
    auto found = std::find_if(free.begin(), free.end(), [&](const Memory& memory) { return memory.bytes >= bytes; });
    if (found == free.end()) {
      free.reserve(free.size() + 1);
      free.push_back(make(bytes));
      held_bytes += free.back().bytes;
      found = free.end() - 1;
    }
    Memory memory = std::move(*found);
    free.erase(found);
    used(when) += memory.bytes;
    return memory;
  }

  // Its place in `free` was there when it was taken, and stays.
  void put(Memory memory, When when) noexcept {
    std::vector<Signal*> told;
    {
      const LockGuard lock(mutex);
      used(when) -= memory.bytes;
      try {
        const std::size_t bytes = memory.bytes;
        held_bytes -= bytes;
        free.push_back(std::move(memory));
        held_bytes += bytes;
      } catch (const std::bad_alloc&) {  // it is freed
      }
      told.swap(waiting);
    }
    for (Signal* const signal : told) signal->raise();
  }

  void clear() {
    std::vector<Memory> all;
    const LockGuard lock(mutex);
    all.swap(free);
    for (const Memory& memory : all) held_bytes -= memory.bytes;
  }

 private:
  std::size_t& used(When when) TESSERA_REQUIRES(mutex) { return when == When::ahead ? ahead_bytes : due_bytes; }

  /// In large pages where there are such.
  static Memory make(std::size_t bytes) {
    constexpr std::size_t large_page = std::size_t{2} << 20;
    const std::size_t page = bytes >= large_page ? large_page : 64;
    const std::size_t rounded = (bytes + page - 1) / page * page;
    Memory memory{std::unique_ptr<std::byte, Memory::Free>(static_cast<std::byte*>(std::aligned_alloc(page, rounded))),
                  rounded};
    if (!memory.begin) throw std::bad_alloc();
    if (page == large_page) static_cast<void>(madvise(memory.begin.get(), rounded, MADV_HUGEPAGE));
    return memory;
  }
};

HostCopies::Copy::Copy(std::shared_ptr<Pool> pool, const cache::HostTile& tile, index_t element_bytes, When when)
    : pool_(std::move(pool)), tile_(tile), element_bytes_(element_bytes), when_(when), missing_pieces_(pieces()) {
  memory_ = pool_->take(bytes_of(tile, element_bytes), when);
}

HostCopies::Copy::~Copy() { pool_->put(std::move(memory_), when_); }

index_t HostCopies::Copy::pieces() const {
  const index_t bytes = tile_.rows * tile_.cols * element_bytes_;
  return std::clamp<index_t>((bytes + piece_bytes - 1) / piece_bytes, 1, std::max<index_t>(tile_.cols, 1));
}

// `move(in the tile, in the copy, bytes)` for each of the columns.
template <class Move>
void HostCopies::Copy::for_columns(index_t first, index_t last, Move move) const {
  const device::Extent all = cache::extent_of(tile_, element_bytes_);
  for (index_t j = first; j < last; ++j) {
    const index_t begin = all.first_byte(j);
    move(tile_.address + j * tile_.ld * element_bytes_ + begin, memory_.begin.get() + j * all.column_bytes + begin,
         all.last_byte(j) - begin);
  }
}

void HostCopies::Copy::take_piece(index_t piece) noexcept {
  const index_t all = pieces();
  for_columns(piece * tile_.cols / all, (piece + 1) * tile_.cols / all,
              [](const std::byte* tile, std::byte* copy, index_t bytes) { copy_streaming(copy, tile, bytes); });
  finish_streaming();
}

bool HostCopies::Copy::restore() noexcept {
  for_columns(0, tile_.cols,
              [](std::byte* tile, const std::byte* copy, index_t bytes) { copy_streaming(tile, copy, bytes); });
  finish_streaming();
  return true;
}

// By the links that new values come over: trmm overwrites 25 GB/s by each. No more than would be missed by those that
// carry pageable memory.
int HostCopies::threads_for(std::size_t devices) {
  const std::size_t processors = std::thread::hardware_concurrency();
  return static_cast<int>(std::clamp<std::size_t>(8 * devices, 1, std::max<std::size_t>(processors / 2, 1)));
}

HostCopies::HostCopies(int threads, std::size_t most_bytes)
    : most_threads_(threads), pool_(std::make_shared<Pool>(most_bytes)) {}

HostCopies::~HostCopies() {
  {
    const LockGuard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (Thread& thread : threads_) thread.join();
}

bool HostCopies::has_memory(const cache::HostTile& tile, index_t element_bytes, When when, Signal& changed) {
  return pool_->has_memory(bytes_of(tile, element_bytes), when, changed);
}

HostCopies::CopyPtr HostCopies::copy(const void* job, const cache::HostTile& tile, index_t element_bytes, When when,
                                     Signal& changed) noexcept {
  try {
    CopyPtr made(new Copy(pool_, tile, element_bytes, when));
    const index_t pieces = made->pieces();
    {
      const LockGuard lock(mutex_);
      if (start_threads()) {
        try {
          for (index_t piece = 0; piece < pieces; ++piece) {
            if (when == When::due)
              pieces_.push_front({made, piece, &changed, job});
            else
              pieces_.push_back({made, piece, &changed, job});
          }
        } catch (...) {
          std::erase_if(pieces_, [&](const Piece& piece) { return piece.copy == made; });
          throw;
        }
        changed_.notify_all();
        return made;
      }
    }
    for (index_t piece = 0; piece < pieces; ++piece) made->take_piece(piece);
    made->missing_pieces_.store(0, std::memory_order_release);
    return made;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// @return whether there are any
bool HostCopies::start_threads() {
  try {
    threads_.reserve(static_cast<std::size_t>(most_threads_));  // a thread without a place would end the process
    copied_for_.resize(threads_.capacity());
    while (static_cast<int>(threads_.size()) < most_threads_)
      threads_.push_back(start_thread([this, number = threads_.size()] { serve(number); }));
  } catch (const std::system_error&) {  // fewer do as well
  } catch (const std::bad_alloc&) {
  }
  return !threads_.empty();
}

void HostCopies::serve(std::size_t thread) {
  UniqueLock lock(mutex_);
  for (;;) {
    changed_.wait(lock.native(), [this]() TESSERA_REQUIRES(mutex_) { return stopping_ || !pieces_.empty(); });
    if (stopping_) return;
    Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    copied_for_[thread] = piece.job;
    lock.unlock();
    piece.copy->take_piece(piece.number);
    // Release: the tile is written only after it has been read.
    if (piece.copy->missing_pieces_.fetch_sub(1, std::memory_order_acq_rel) == 1) piece.changed->raise();
    piece.copy.reset();
    lock.lock();
    copied_for_[thread] = nullptr;
    if (stops_ > 0) changed_.notify_all();
  }
}

// Takes no memory: the results of a job are there when this is called.
void HostCopies::stop_copying(const void* job) noexcept {
  UniqueLock lock(mutex_);
  std::erase_if(pieces_, [job](const Piece& piece) { return piece.job == job; });
  ++stops_;
  changed_.wait(lock.native(), [&]() TESSERA_REQUIRES(mutex_) {
    return std::find(copied_for_.begin(), copied_for_.end(), job) == copied_for_.end();
  });
  --stops_;
}

void HostCopies::give_back() { pool_->clear(); }

std::size_t HostCopies::held_bytes() const {
  const LockGuard lock(pool_->mutex);
  return pool_->held_bytes;
}

}  // namespace tessera::runtime
