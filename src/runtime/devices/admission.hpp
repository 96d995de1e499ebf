// The admission of calls to devices, in order of arrival. Each call gets as many devices as its plan wants, those with
// the fewest calls, and on each of them a part of the memory of its own; up to `most_calls` share a device. A batch or
// a measurement must have all devices for itself: it waits until they are free, and then others wait for it.
//
// Invariants: parts of one device do not overlap; nobody is admitted before somebody who has come earlier, so that
// nobody waits for ever. Thread-safe.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/mutex.hpp"
#include "core/scalar.hpp"

namespace tessera::runtime {

/// The memory that a call asks for.
struct MemoryRequest {
  struct Share {
    std::size_t bytes = 0;     ///< of the device's memory; 0: it may not take part
    std::size_t capacity = 0;  ///< the share ends before this byte; at least `bytes`
  };
  std::vector<Share> shares;  ///< by device
  index_t devices = 0;        ///< how many of these, at most

  bool is_empty() const {
    return std::none_of(shares.begin(), shares.end(), [](const Share& share) { return share.bytes > 0; });
  }
};

class Admission {
 public:
  /// Calls that a device has at once: one computes, one brings its first tiles, one takes its last results back, and
  /// one prepares or ends on the host.
  static constexpr int most_calls = 4;

  /// Of the parts' offsets.
  static constexpr std::size_t alignment = 256;

  /// A part of a device's memory.
  struct Part {
    std::size_t offset = 0;
    std::size_t bytes = 0;  ///< 0: the call does not use the device
    std::size_t end() const { return offset + bytes; }
  };

  /// Devices in use, until it is destroyed.
  class Stay {
   public:
    Stay(Stay&& other) noexcept
        : admission_(other.admission_), holds_(std::exchange(other.holds_, false)), parts_(std::move(other.parts_)) {}
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    Stay& operator=(Stay&&) = delete;
    ~Stay() {
      if (holds_) admission_.leave(*this);
    }
    explicit operator bool() const { return holds_; }
    /// By device.
    const std::vector<Part>& parts() const { return parts_; }
    std::vector<bool> devices() const;

   private:
    friend class Admission;
    explicit Stay(Admission& admission) : admission_(admission) {}

    Admission& admission_;
    bool holds_ = false;
    std::vector<Part> parts_;  // empty: all devices, and nobody else has any
  };

  /// @param slabs bytes of each device's memory at most, used or not
  explicit Admission(const std::vector<std::size_t>& slabs);

  /// Waits for those who came before, and until as many devices as are wanted have the memory.
  /// @throws std::bad_alloc
  Stay enter(const MemoryRequest& request) TESSERA_EXCLUDES(mutex_);
  /// Waits for those who came before, and until all devices are free.
  Stay enter_alone() TESSERA_EXCLUDES(mutex_);
  /// The same if nobody is there or waits; else a stay that holds nothing.
  Stay try_alone() TESSERA_EXCLUDES(mutex_);

  /// Somebody waits.
  bool is_wanted() const;
  /// Other calls on the devices of the stay, of the device with most.
  int calls_beside(const Stay& stay) const;
  /// Where the last part of the device's memory that others than the stay use ends.
  std::size_t end_of_others(const Stay& stay, std::size_t device) const;

 private:
  struct Place {
    std::size_t bytes = 0;    // of the device's memory
    std::vector<Part> parts;  // in use, in order of their offsets
  };

  class Turn;
  bool all_free() const TESSERA_REQUIRES(mutex_);
  bool place(const MemoryRequest& request, std::vector<Part>& parts) TESSERA_REQUIRES(mutex_);
  static std::optional<Part> take(Place& at, const MemoryRequest::Share& share);
  void free(std::size_t device, const Part& part) TESSERA_REQUIRES(mutex_);
  void leave(const Stay& stay);

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ticket_ TESSERA_GUARDED_BY(mutex_) = 0;
  std::uint64_t serving_ TESSERA_GUARDED_BY(mutex_) = 0;  ///< this ticket is next to be admitted
  int alone_ TESSERA_GUARDED_BY(mutex_) = 0;              ///< somebody has all devices
  std::deque<Place> places_ TESSERA_GUARDED_BY(mutex_);   ///< by device
};

}  // namespace tessera::runtime
