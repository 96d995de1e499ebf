// Who uses which devices now. Calls are admitted in order of arrival. Each gets as many devices as its plan wants, those
// with the fewest calls, and on each of them a part of the memory of its own; up to `most_calls` share a device. What
// must have all devices for itself (a batch, a measurement) waits until they are free, and then others wait for it.
//
// Invariants: parts of one device do not overlap; nobody is admitted before somebody who has come earlier, so that
// nobody waits for ever. Thread-safe.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/scalar.hpp"

namespace tessera::runtime {

class Admission {
 public:
  /// Calls that a device has at once: one computes, one brings its first tiles, one takes its last results back, and
  /// one prepares or ends on the host.
  static constexpr int most_calls = 4;

  /// Of the parts' offsets.
  static constexpr std::size_t alignment = 256;

  /// What a call wants.
  struct Demand {
    struct Share {
      std::size_t bytes = 0;  ///< of the device's memory; 0: it may not take part
      std::size_t room = 0;   ///< which ends before this, in bytes; at least `bytes`
    };
    std::vector<Share> shares;  ///< by device
    index_t devices = 0;        ///< how many of these, at most

    bool is_empty() const {
      return std::none_of(shares.begin(), shares.end(), [](const Share& share) { return share.bytes > 0; });
    }
  };

  /// A part of a device's memory.
  struct Part {
    std::size_t offset = 0;
    std::size_t bytes = 0;  ///< 0: the device is none of the call's
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

  /// Waits for those who came before, and until there are as many devices as are wanted, with room.
  /// @throws std::bad_alloc
  Stay enter(const Demand& demand);
  /// Waits for those who came before, and until all devices are free.
  Stay enter_alone();
  /// The same if nobody is there or waits; else a stay that holds nothing.
  Stay try_alone();

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

  using Lock = std::unique_lock<std::mutex>;
  class Turn;
  bool all_free() const;
  bool place(const Demand& demand, std::vector<Part>& parts);
  static std::optional<Part> take(Place& at, const Demand::Share& share);
  void free(std::size_t device, const Part& part);
  void leave(const Stay& stay);

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t serving_ = 0;  ///< who has this ticket is next to be admitted
  int alone_ = 0;              ///< somebody has all devices
  std::deque<Place> places_;   ///< by device
};

}  // namespace tessera::runtime
