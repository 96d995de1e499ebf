// One state of the model that coherence_model_test.cpp explores. It has two devices whose copies end when the checker
// decides, the real TileCache on them, and tasks that read, write and update tiles. A tile is one number, which encodes
// its version. The target of a copy holds garbage from the submission on, and the source must not change while the copy
// may be under way.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cache/tile_cache.hpp"

namespace tessera::cache::model {

inline constexpr int devices = 2;
inline constexpr int tiles = 2;
inline constexpr std::int64_t garbage = -1;
constexpr std::int64_t value_of(int tile, Version version) { return 100 * (tile + 1) + version; }

/// Thrown for a property that does not hold.
class Violation : public std::logic_error {
  using std::logic_error::logic_error;
};
inline void require(bool holds, const char* what) {
  if (!holds) throw Violation(what);
}

class ChosenEvent final : public device::Event {
 public:
  device::EventStatus status() const noexcept override {
    return complete ? device::EventStatus::complete : device::EventStatus::pending;
  }
  double completed_at() const override { return 0; }
  bool complete = false;
};

/// A device whose streams are queues. If a copy is first in a queue, the checker can choose to end it.
class ChosenDevice final : public device::Device {
 public:
  struct Work {
    std::int64_t* to = nullptr;  ///< of a copy; nullptr: wait or record
    const std::int64_t* from = nullptr;
    std::optional<std::int64_t> seen = {};  ///< the value that the copy may have read already
    std::shared_ptr<ChosenEvent> event = {};
    bool waits = false;
  };
  using Stream = std::deque<Work>;

  explicit ChosenDevice(std::size_t slots) : slab_(slots * heap::FreeList::alignment / sizeof(std::int64_t), garbage) {}

  std::byte* slab() { return reinterpret_cast<std::byte*>(slab_.data()); }
  const std::array<Stream, device::stream_count>& streams() const { return streams_; }
  bool can_end(int stream) const { return !queue(stream).empty() && queue(stream).front().to != nullptr; }
  void end_copy(int stream);
  /// Runs all steps that need no choice. @return whether there were any
  bool advance();

  const device::DeviceInfo& info() const override { return info_; }
  std::size_t free_memory_bytes() const override { return 0; }
  std::byte* reserve(std::size_t) override { return slab(); }
  void copy_up(device::Block to, device::Block from, device::Extent) override {
    copy(device::StreamKind::up, to, from);
  }
  void copy_down(device::Block to, device::Block from, device::Extent) override {
    copy(device::StreamKind::down, to, from);
  }
  void copy_peer(device::Block to, Device&, device::Block from, device::Extent) override {
    copy(device::StreamKind::peer, to, from);
  }
  void copy_to_peer(Device&, device::Block to, device::Block from, device::Extent) override {
    copy(device::StreamKind::to_peer, to, from);
  }
  bool can_access(const Device&) const override { return true; }
  device::EventPtr record(device::StreamId stream) override;
  void wait(device::StreamId stream, const device::EventPtr& event) override;
  std::unique_ptr<device::HostPinning> pin_host(std::span<const device::HostRange>) override { return nullptr; }
  bool on_completion(std::function<void()>) override { return false; }
  void attach_thread() override {}
  bool recover() noexcept override { return true; }

 private:
  void copy(device::StreamKind kind, device::Block to, device::Block from);
  const Stream& queue(int stream) const { return streams_[static_cast<std::size_t>(stream)]; }

  device::DeviceInfo info_;
  std::vector<std::int64_t> slab_;
  std::array<Stream, device::stream_count> streams_;
};

/// How a task makes its output.
enum class Way {
  none,
  update,   ///< in the place of the old value, which it reads; published
  replace,  ///< in a place of its own; published, while others may read the old value
  solve,    ///< like trsm: published, written back, stays
  product,  ///< like gemm: the old value is fetched; the result is written back and leaves the device
  beside    ///< like trmm: others read the old value until the write-back begins
};

struct Access {
  int tile = 0;
  Version version = 0;
};

struct Task {
  int device = 0;
  int client = 0;
  std::vector<Access> reads = {};
  Way way = Way::none;
  Access output = {};  ///< the version that it makes
};

struct Scenario {
  const char* name;
  std::array<std::size_t, devices> slots;
  std::vector<Task> tasks;
};

/// Something that may happen next.
struct Move {
  enum class Kind { copy, task, prefetch, collect, flush_to_evict, flush_all } kind = Kind::copy;
  int device = 0;  ///< of a task: its number
  int stream = 0;  ///< of a prefetch: the tile
};

class World {
 public:
  explicit World(const Scenario& scenario);

  std::vector<Move> moves() const;
  void make(const Move& move);
  /// Whether all tasks and copies are done and host memory holds the last versions.
  bool finished() const;
  /// All state that determines the possible moves from here on.
  std::string fingerprint() const;
  /// @throws Violation, InternalError
  void check() const;
  /// Checks that a new job has no state of this one.
  void check_end();

 private:
  enum Stage { pins, takes, updates, computes, publishes, writes, finishes, done };
  struct Progress {
    Stage stage = pins;
    std::vector<Replica*> held = {};
    Replica* output = nullptr;
    device::EventPtr written = {};
    bool began = false;
  };

  static bool goes_home(Way way) { return way == Way::solve || way == Way::product || way == Way::beside; }
  static std::size_t slots_of(const Task& task) { return task.reads.size() + (task.way == Way::none ? 0 : 1); }
  HostTile tile(int number) const;
  Version latest(int number) const { return latest_[static_cast<std::size_t>(number)]; }
  bool may_begin(std::size_t t) const;
  bool readers_are(const Task& writer, Stage on_its_device, Stage elsewhere) const;
  bool writers_are_done(const Task& writer) const;
  bool may_step(std::size_t t) const;
  void step(std::size_t t);
  void pin_next(const Task& task, Progress& progress);
  void take_output(const Task& task, Progress& progress);
  void compute(const Task& task, const Progress& progress) const;
  void publish(const Task& task, Progress& progress);
  bool wants_room(int device) const;
  bool all_done() const;
  std::string name_of(const std::int64_t* address) const;

  const Scenario& scenario_;
  mutable std::array<std::int64_t, tiles> host_{};
  std::array<Version, tiles> latest_{};  ///< the version that tasks may read
  std::array<std::unique_ptr<ChosenDevice>, devices> devices_;
  std::optional<TileCache> cache_;
  std::vector<Progress> progress_;
};

}  // namespace tessera::cache::model
