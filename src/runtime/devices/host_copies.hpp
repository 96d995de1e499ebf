// Copies in host memory of tiles of C as they were (runtime/tiles/old_values.hpp).
//
// Threads of their own make the copies. A copy is begun with its task where there is memory, so that it is whole when the
// task's result is ready; otherwise when the result is ready. Copies made ahead leave half of the memory to those that a
// result waits for: these end without anything else that a task waits for.
// Memory is kept from copy to copy, and given back with that of the devices.
//
// Thread-safe, except for the destructor.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "cache/tile_directory.hpp"
#include "core/mutex.hpp"
#include "core/thread.hpp"
#include "runtime/devices/signal.hpp"
#include "runtime/tiles/old_copy.hpp"

namespace tessera::runtime {

class HostCopies {
 public:
  enum class When {
    ahead,  ///< the task has only begun: it goes on without a copy where there is no memory
    due     ///< its result is ready: it waits for memory
  };

 private:
  struct Pool;
  struct Memory {
    struct Free {
      void operator()(std::byte* memory) const noexcept { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> begin;
    std::size_t bytes = 0;
  };

 public:
  /// The elements of one tile, as they were.
  class Copy final : public OldCopy {
   public:
    ~Copy() override;
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;
    bool is_whole() const override { return missing_pieces_.load(std::memory_order_acquire) == 0; }
    bool restore() noexcept override;

   private:
    friend class HostCopies;
    Copy(std::shared_ptr<Pool> pool, const cache::HostTile& tile, index_t element_bytes, When when);
    index_t pieces() const;
    void take_piece(index_t piece) noexcept;
    template <class Move>
    void for_columns(index_t first, index_t last, Move move) const;

    std::shared_ptr<Pool> pool_;
    cache::HostTile tile_;
    index_t element_bytes_;
    When when_;
    Memory memory_;
    /// Pairs with is_whole(): who sees 0 may have the tile overwritten.
    std::atomic<index_t> missing_pieces_;
  };
  using CopyPtr = std::shared_ptr<Copy>;

  /// How many threads copy for so many devices.
  static int threads_for(std::size_t devices);

  /// @param threads that copy, at least 1; they start with the first copy. @param most_bytes of all copies together
  HostCopies(int threads, std::size_t most_bytes);
  /// @pre nobody waits for a copy
  ~HostCopies();
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  /// Whether there is memory for one more copy; there always is for one alone that is due. If not, and it is due,
  /// `changed` is raised when one goes. @param changed outlives this
  bool has_memory(const cache::HostTile& tile, index_t element_bytes, When when, Signal& changed);
  /// Begins to copy a tile. @pre its elements stay as they are until the copy is whole or dropped
  /// @param job for stop_copying() @param changed raised when it is whole; outlives the copy. @return nullptr if there
  /// is no memory
  CopyPtr copy(const void* job, const cache::HostTile& tile, index_t element_bytes, When when,
               Signal& changed) noexcept;

  /// No tile of the job is read any more when this returns. Copies that are not whole stay so.
  void stop_copying(const void* job) noexcept;

  /// Frees the memory that no copy uses.
  void give_back();
  /// Bytes that are kept or in use.
  std::size_t held_bytes() const;

 private:
  struct Piece {
    CopyPtr copy;
    index_t number = 0;
    Signal* changed = nullptr;
    const void* job = nullptr;
  };
  void serve(std::size_t thread);
  bool start_threads() TESSERA_REQUIRES(mutex_);

  const int most_threads_;
  std::shared_ptr<Pool> pool_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_ TESSERA_GUARDED_BY(mutex_);
  /// The jobs that threads copy for, by thread; nullptr: it waits.
  std::vector<const void*> copied_for_ TESSERA_GUARDED_BY(mutex_);
  int stops_ TESSERA_GUARDED_BY(mutex_) = 0;  ///< calls of stop_copying() that wait
  std::vector<Thread> threads_ TESSERA_GUARDED_BY(mutex_);
  bool stopping_ TESSERA_GUARDED_BY(mutex_) = false;
};

}  // namespace tessera::runtime
