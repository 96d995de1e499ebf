// A device that does nothing by itself: a test says which work ends, in what order, and how. So time decides nothing.
// Nothing is stored, and addresses are only compared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "device/device.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::test {

class ManualEvent final : public device::Event {
 public:
  device::EventStatus status() const noexcept override { return status_; }
  double completed_at() const override { return at_; }
  void end(device::EventStatus status, double at) {
    status_ = status;
    at_ = at;
  }

 private:
  device::EventStatus status_ = device::EventStatus::pending;
  double at_ = 0;
};

class ManualDevice : public device::Device, public kernels::TileOps {
 public:
  /// A copy or a kernel.
  struct Work {
    device::StreamId stream;
    std::string name;            ///< "up", "down", "gemm", ...
    const void* host = nullptr;  ///< of a copy from or to host memory
    Level3 call = {};            ///< of a kernel of Level 3
    kernels::Mirroring mirroring = {};
  };

  ManualDevice(int ordinal, bool connected) : connected_(connected) {
    info_.backend = "manual";
    info_.ordinal = ordinal;
    info_.profile.link_queue_bytes = index_t{1} << 40;
    info_.profile.short_kernel_s = 1e-4;
    info_.profile.ranked_kernel_s = 2e-4;
    info_.profile.backlog_s = 2e-3;
  }

  /// The device's description of itself; to be changed before a job begins.
  device::DeviceInfo& said() { return info_; }
  /// Work ends when it is submitted.
  bool ends_at_once = false;
  bool copies_slices = false;
  bool refuses_copies_down = false;
  int info_of_factorizations = 0;  ///< LAPACK's, of all of them

  /// All work in the order of its submission, of one kind of stream.
  std::vector<Work> work(device::StreamKind kind) const {
    std::vector<Work> found;
    for (const Work& each : work_) {
      if (each.stream.kind == kind) found.push_back(each);
    }
    return found;
  }
  std::vector<Work> kernels() const { return work(device::StreamKind::compute); }
  /// The host addresses from which tiles have been fetched.
  std::vector<const void*> fetched() const {
    std::vector<const void*> tiles;
    for (const Work& each : work(device::StreamKind::up)) tiles.push_back(each.host);
    return tiles;
  }

  /// Ends the first work of the stream. @return false if there is none, or if it waits for an event
  bool finish(device::StreamId stream, device::EventStatus how = device::EventStatus::complete) {
    pass_all();
    Stream& queue = at(stream);
    if (queue.entries.empty() || queue.entries.front().awaits) return false;
    queue.entries.pop_front();
    queue.has_failed = queue.has_failed || how == device::EventStatus::failed;
    pass_all();
    return true;
  }
  bool finish_kernel(int stream) { return finish({device::StreamKind::compute, stream}); }
  /// Ends all work of a kind, as far as it waits for nothing else. @return whether there was any
  bool finish_all(device::StreamKind kind) {
    bool any = false;
    const int streams = kind == device::StreamKind::compute ? device::compute_streams : 1;
    for (int index = 0; index < streams; ++index) {
      while (finish({kind, index})) any = true;
    }
    return any;
  }
  bool finish_all() {
    bool any = false;
    for (bool progress = true; progress; any |= progress) {
      progress = false;
      for (int kind = 0; kind < 5; ++kind) progress |= finish_all(static_cast<device::StreamKind>(kind));
    }
    return any;
  }

  const device::DeviceInfo& info() const override { return info_; }
  std::size_t free_memory_bytes() const override { return std::size_t{1} << 40; }
  std::byte* reserve(std::size_t) override {
    return reinterpret_cast<std::byte*>((std::uintptr_t{1} << 60) + (static_cast<std::uintptr_t>(info_.ordinal) << 50));
  }
  void copy_up(device::Block, device::Block host, device::Extent) override {
    submit({{device::StreamKind::up}, "up", host.address});
  }
  void copy_down(device::Block host, device::Block, device::Extent) override {
    if (refuses_copies_down) throw WorkRefused("manual");
    submit({{device::StreamKind::down}, "down", host.address});
  }
  bool can_copy_slices(device::Extent, device::SliceKind) override { return copies_slices; }
  void copy_slices_down(device::Block host, device::Block, device::Extent, const device::WrittenSlicesPtr&) override {
    submit({{device::StreamKind::down}, "slices", host.address});
  }
  void copy_peer(device::Block, Device&, device::Block, device::Extent) override {
    submit({{device::StreamKind::peer}, "peer"});
  }
  void copy_to_peer(Device&, device::Block, device::Block, device::Extent) override {
    submit({{device::StreamKind::to_peer}, "to_peer"});
  }
  bool can_access(const Device&) const override { return connected_; }
  device::EventPtr record(device::StreamId stream) override {
    auto event = std::make_shared<ManualEvent>();
    at(stream).entries.push_back({.records = event});
    pass_all();
    return event;
  }
  void wait(device::StreamId stream, const device::EventPtr& event) override {
    at(stream).entries.push_back({.awaits = event});
  }
  std::unique_ptr<device::HostPinning> pin_host(std::span<const device::HostRange>) override { return nullptr; }
  bool on_completion(std::function<void()>) override { return true; }
  void attach_thread() override {}
  bool recover() noexcept override {
    for (Stream& stream : streams_) stream = {};
    return true;
  }

  void run(int stream, const Level3& call) override {
    submit({{device::StreamKind::compute, stream}, name_of(call.routine), nullptr, call});
  }
  void add(int stream, const kernels::Addition&) override { compute(stream, "add"); }
  void mirror(int stream, const kernels::Mirroring& mirroring) override {
    submit({{device::StreamKind::compute, stream}, "mirror", nullptr, {}, mirroring});
  }
  void factor(int stream, const kernels::TileFactorization& tile) override {
    *tile.info = info_of_factorizations;
    compute(stream, "factor");
  }
  void factor_panel(int stream, const kernels::Panel&, index_t, index_t) override { compute(stream, "panel"); }
  void apply_panel(int stream, const kernels::PanelUpdate&) override { compute(stream, "apply"); }
  void run_batch(int stream, const kernels::Level3Batch&, double) override { compute(stream, "batch"); }
  void run_lapack_batch(int stream, const kernels::LapackBatch&, const kernels::Workspace&, double) override {
    compute(stream, "batch");
  }

 protected:
  /// All that is recorded in the stream from now on has failed.
  void fail(device::StreamId stream) { at(stream).has_failed = true; }

 private:
  struct Entry {  // work, a point to record, or an event to wait for
    std::shared_ptr<ManualEvent> records = nullptr;
    device::EventPtr awaits = nullptr;
  };
  struct Stream {
    std::deque<Entry> entries;
    bool has_failed = false;
  };

  Stream& at(device::StreamId stream) { return streams_[static_cast<std::size_t>(device::stream_number(stream))]; }
  void compute(int stream, const char* name) { submit({{device::StreamKind::compute, stream}, name}); }
  void submit(Work work) {
    const device::StreamId stream = work.stream;
    work_.push_back(std::move(work));
    if (!ends_at_once) at(stream).entries.push_back({});
  }
  // Records the points that have been reached, and drops the events that have ended.
  void pass_all() {
    for (bool progress = true; progress;) {
      progress = false;
      for (Stream& stream : streams_) progress |= pass(stream);
    }
  }
  bool pass(Stream& stream) {
    bool any = false;
    for (; !stream.entries.empty(); stream.entries.pop_front(), any = true) {
      const Entry& first = stream.entries.front();
      if (first.records) {
        first.records->end(stream.has_failed ? device::EventStatus::failed : device::EventStatus::complete, ++now_);
        continue;
      }
      if (!first.awaits || first.awaits->status() == device::EventStatus::pending) break;
      stream.has_failed = stream.has_failed || first.awaits->status() == device::EventStatus::failed;
    }
    return any;
  }

  const bool connected_;
  device::DeviceInfo info_;
  std::vector<Work> work_;
  std::array<Stream, device::stream_count> streams_;
  double now_ = 0;
};

}  // namespace tessera::test
