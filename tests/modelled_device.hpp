// A device of a modelled machine, in virtual time. The model is described in modelled_run.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "device/device.hpp"
#include "kernels/tile_ops.hpp"
#include "routines/level3.hpp"
#include "tests/modelled_machine.hpp"

namespace tessera::test {

class VirtualClock {
 public:
  double now() const { return now_; }
  void set(double now) { now_ = now; }

 private:
  double now_ = 0;
};

class ModelledDevice;

class ModelledEvent final : public device::Event {
 public:
  /// @param device that advances during a query; nullptr: queries take no time
  explicit ModelledEvent(ModelledDevice* device) : device_(device) {}
  device::EventStatus status() const noexcept override;
  double completed_at() const override { return *at_; }
  bool completed() const { return at_.has_value(); }
  void complete(double at) { at_ = at; }

 private:
  ModelledDevice* device_;
  std::optional<double> at_;
};

/// The total traffic of the host's links.
struct HostTraffic {
  int up = 0;
  int down = 0;
};

class ModelledDevice : public device::Device, public kernels::TileOps {
 public:
  ModelledDevice(int ordinal, const ModelledMachine& machine, VirtualClock& clock, HostTraffic& host)
      : machine_(machine),
        speed_(static_cast<std::size_t>(ordinal) < machine.speeds.size()
                   ? machine.speeds[static_cast<std::size_t>(ordinal)]
                   : 1),
        kernel_rates_(static_cast<std::size_t>(ordinal) < machine.rates.size()
                          ? machine.rates[static_cast<std::size_t>(ordinal)]
                          : RatesByType(speed_ * machine.flops)),
        clock_(clock),
        host_(host) {
    info_.backend = "model";
    info_.ordinal = ordinal;
    info_.memory_bytes = machine.memory_of(ordinal);
    // Without `speeds`: the library does not know that a device is slower than others of its kind.
    info_.flops_per_s = machine.said.value_or(machine.rates.empty() ? RatesByType(machine.flops) : kernel_rates_);
    info_.link_bytes_per_s = machine.link_bytes;
    info_.profile = machine.profile;
  }

  const device::DeviceInfo& info() const override { return info_; }
  std::size_t free_memory_bytes() const override { return info_.memory_bytes; }
  std::byte* reserve(std::size_t) override {
    return reinterpret_cast<std::byte*>((std::uintptr_t{1} << 60) + (static_cast<std::uintptr_t>(info_.ordinal) << 50));
  }
  void copy_up(device::Block, device::Block host, device::Extent extent) override {
    copy(device::StreamKind::up, host, extent);
  }
  void copy_down(device::Block host, device::Block, device::Extent extent) override {
    copy(device::StreamKind::down, host, extent);
  }
  void copy_peer(device::Block, Device&, device::Block, device::Extent extent) override {
    copy(device::StreamKind::peer, {}, extent);
  }
  void copy_to_peer(Device&, device::Block, device::Block, device::Extent extent) override {
    copy(device::StreamKind::to_peer, {}, extent);
  }
  bool can_access(const Device&) const override { return machine_.connected; }
  device::EventPtr record(device::StreamId stream) override {
    auto event = std::make_shared<ModelledEvent>(machine_.poll > 0 ? this : nullptr);
    queue(stream).push_back({.records = event});
    settle();
    return event;
  }
  void wait(device::StreamId stream, const device::EventPtr& event) override {
    queue(stream).push_back({.awaits = event});
  }
  std::unique_ptr<device::HostPinning> pin_host(std::span<const device::HostRange>) override { return nullptr; }
  bool on_completion(std::function<void()> listener) override {
    listener_ = std::move(listener);
    return true;
  }
  void attach_thread() override {}
  bool recover() noexcept override { return false; }

  void run(int stream, const Level3& call) override { compute(stream, flops_of(call) / kernel_rates_[call.type]); }
  void add(int stream, const kernels::Addition& addition) override {
    // Bound by the bandwidth of the device's memory.
    const double bytes =
        3.0 * static_cast<double>(addition.m * addition.n) * static_cast<double>(element_bytes(addition.type));
    compute(stream, bytes / 4e12);
  }
  void mirror(int stream, const kernels::Mirroring& tile) override {
    const double bytes = static_cast<double>(tile.n * tile.n) * static_cast<double>(element_bytes(tile.type));
    compute(stream, bytes / 4e12);
  }
  void factor(int stream, const kernels::TileFactorization& tile) override {
    compute(stream, kernels::flops_of(tile) / std::min(machine_.factor_flops * speed_, kernel_rates_[tile.type]));
  }
  void factor_panel(int stream, const kernels::Panel& panel, index_t first, index_t columns) override {
    const double column_s = machine_.panel_column_s + static_cast<double>(panel.m - first) * machine_.panel_element_s;
    compute(stream, static_cast<double>(columns) * column_s / speed_);
  }
  void apply_panel(int stream, const kernels::PanelUpdate& update) override {
    compute(stream, kernels::flops_of(update) / kernel_rates_[update.panel.type]);
  }
  void run_batch(int stream, const kernels::Level3Batch& batch, double flops) override {
    compute(stream, flops / kernel_rates_[batch.common.type]);
  }
  void run_lapack_batch(int stream, const kernels::LapackBatch& batch, const kernels::Workspace& /*workspace*/,
                        double flops) override {
    compute(stream, flops / kernel_rates_[batch.type]);
  }

  /// The device's progress during a query of an event.
  void poll() { go_on_until(clock_.now() + machine_.poll); }

  /// Begins and ends all work that can. @return whether there was any
  bool settle() {
    bool any = false;
    for (bool progress = true; progress;) {
      progress = false;
      for (Engine& engine : engines_) progress |= end(engine);
      for (auto& stream : streams_) {
        while (!stream.empty() && pass(stream.front())) {
          stream.pop_front();
          progress = true;
        }
      }
      for (int kind = 0; kind < 5; ++kind) progress |= begin(static_cast<device::StreamKind>(kind));
      any |= progress;
    }
    return any;
  }

  /// When the next work ends.
  double next_end() const {
    double next = std::numeric_limits<double>::infinity();
    for (const Engine& engine : engines_) {
      if (engine.stream >= 0) next = std::min(next, engine.ends);
    }
    return next;
  }

 private:
  struct Operation {      // exactly one of: work, a point to record, an event to wait for
    double seconds = 0;   ///< of work that is no copy, and before a copy begins
    double bytes = 0;     ///< bytes left to copy
    double slowness = 1;  ///< of the device's own link with them
    std::shared_ptr<ModelledEvent> records = nullptr;
    device::EventPtr awaits = nullptr;

    bool works() const { return !records && !awaits; }
  };
  struct Engine {
    int stream = -1;  ///< whose first operation it runs
    double ends = 0;
    double bytes = 0;  ///< that have been copied by then
  };
  static constexpr double piece_bytes = 4 << 20;

  // While the worker is busy.
  void go_on_until(double then) {
    for (settle(); next_end() < then; settle()) clock_.set(next_end());
    clock_.set(then);
    settle();
  }
  std::deque<Operation>& queue(device::StreamId stream) {
    return streams_[static_cast<std::size_t>(device::stream_number(stream))];
  }
  void compute(int stream, double seconds) {
    if (machine_.submission > 0) go_on_until(clock_.now() + machine_.submission);
    queue({device::StreamKind::compute, stream}).push_back({.seconds = seconds + machine_.kernel_overhead});
  }
  void copy(device::StreamKind kind, device::Block host, device::Extent extent) {
    const double slowness =
        machine_.in_pages
            ? slowness_in_pages(kind, host, extent)
            : std::max(1.0, (1 + machine_.short_column_bytes / static_cast<double>(extent.column_bytes)) / 1.15);
    queue({kind}).push_back(
        {.seconds = machine_.copy_overhead, .bytes = static_cast<double>(extent.bytes()), .slowness = slowness});
  }

  bool pass(Operation& operation) {
    if (operation.records) {
      operation.records->complete(clock_.now());
      if (listener_) listener_();
    }
    return operation.records || (operation.awaits && static_cast<ModelledEvent&>(*operation.awaits).completed());
  }

  bool end(Engine& engine) {
    if (engine.stream < 0 || engine.ends > clock_.now()) return false;
    auto& stream = streams_[static_cast<std::size_t>(engine.stream)];
    stream.front().bytes -= engine.bytes;
    if (stream.front().bytes <= 0) stream.pop_front();
    const auto kind = kind_of(engine.stream);
    if (kind == device::StreamKind::up) --host_.up;
    if (kind == device::StreamKind::down) --host_.down;
    engine.stream = -1;
    return true;
  }

  bool begin(device::StreamKind kind) {
    Engine& engine = engines_[static_cast<std::size_t>(kind)];
    Operation* first = nullptr;
    int of = -1;
    for (int number = 0; number < device::stream_count; ++number) {
      auto& stream = streams_[static_cast<std::size_t>(number)];
      if (kind_of(number) != kind || stream.empty() || !stream.front().works()) continue;
      Operation& operation = stream.front();
      if (first == nullptr) {
        first = &operation;
        of = number;
      }
    }
    if (first == nullptr) return false;
    if (engine.stream >= 0) {
      if (kind != device::StreamKind::compute || !machine_.interrupts || engine.stream <= of) return false;
      streams_[static_cast<std::size_t>(engine.stream)].front().seconds = engine.ends - clock_.now();
    }
    const bool by_link = kind == device::StreamKind::up || kind == device::StreamKind::down;
    const double bytes = by_link ? std::min(first->bytes, piece_bytes) : first->bytes;
    const double overhead = std::exchange(first->seconds, 0);
    engine = {of, clock_.now() + overhead + bytes / rate_of(kind, first->slowness), bytes};
    return true;
  }

  double rate_of(device::StreamKind kind, double slowness) {
    if (kind == device::StreamKind::compute) return 1;  // no bytes
    if (by_peer_link(kind)) return machine_.peer_bytes;
    int& same = kind == device::StreamKind::up ? host_.up : host_.down;
    ++same;
    return std::min({speed_ * machine_.link_bytes / slowness, machine_.host_bytes / same,
                     machine_.host_both / (host_.up + host_.down)});
  }

  static bool by_peer_link(device::StreamKind kind) {
    return kind == device::StreamKind::peer || kind == device::StreamKind::to_peer;
  }
  static device::StreamKind kind_of(int number) {
    if (number < device::compute_streams) return device::StreamKind::compute;
    return static_cast<device::StreamKind>(number - device::compute_streams + 1);
  }

  const ModelledMachine& machine_;
  double speed_;
  RatesByType kernel_rates_;
  VirtualClock& clock_;
  HostTraffic& host_;
  device::DeviceInfo info_;
  std::function<void()> listener_;
  std::array<std::deque<Operation>, device::stream_count> streams_;
  std::array<Engine, 5> engines_;  // by StreamKind
};

inline device::EventStatus ModelledEvent::status() const noexcept {
  const device::EventStatus status = at_ ? device::EventStatus::complete : device::EventStatus::pending;
  if (device_ != nullptr) device_->poll();
  return status;
}

}  // namespace tessera::test
