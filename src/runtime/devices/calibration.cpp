#include "runtime/devices/calibration.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <complex>
#include <exception>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "calls/level3.hpp"
#include "core/error.hpp"
#include "core/mutex.hpp"
#include "core/thread.hpp"

namespace tessera::runtime {
namespace {

using device::Block;
using device::EventStatus;
using device::Extent;
using device::StreamId;
using device::StreamKind;

// How long a measurement takes is what decides these numbers, on every machine: the buffer keeps a link busy for some
// milliseconds, and what takes longer is cut short. Columns are as long as tiles have them where copy engines care.
constexpr index_t shortest_column_bytes = 32768;
constexpr std::size_t most_buffer_bytes = std::size_t{64} << 20;
constexpr std::size_t least_memory_bytes = std::size_t{4} << 20;
constexpr int copies = 4;
constexpr index_t smallest_tile = 128;
constexpr double shortest = 1e-9;  // that a clock can tell
constexpr double lengthy_copy_seconds = 0.02;
constexpr double kernel_seconds = 0.02;   // of a measurement that counts
constexpr double lengthy_seconds = 0.05;  // of one that has told enough, on a slow device

double wait_for(const device::EventPtr& event) {
  while (event->status() == EventStatus::pending) std::this_thread::sleep_for(std::chrono::microseconds(20));
  if (event->status() == EventStatus::failed) throw DeviceLost("a device failed while it was measured");
  return event->completed_at();
}

/// Fills host memory with numbers: what kernels draw of power, and so their clock, depends on the data. A few thousand,
/// again and again.
template <Scalar T>
void fill(std::vector<std::byte>& memory, std::size_t bytes) {
  constexpr std::size_t period = 4093;  // a prime: columns differ
  memory.resize(bytes);
  auto* const values = reinterpret_cast<T*>(memory.data());
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  for (std::size_t i = 0; i < bytes / sizeof(T); ++i) values[i] = i < period ? T(value(random)) : values[i - period];
}

/// Tiles of all streams, and their input.
std::size_t bytes_of_tiles(index_t tile, std::size_t element) {
  return (1 + device::compute_streams) * static_cast<std::size_t>(tile * tile) * element;
}

/// Runs `body(d)` for each device by a thread of its own. A device whose body throws is recovered before what the body
/// owns is gone.
/// @param together one less is expected there for each thread that fails
template <class Body>
void on_all(std::span<const MeasuredDevice> devices, std::barrier<>& together, Body body) {
  Mutex mutex;
  std::exception_ptr failure;
  const auto give_up = [&] {
    const LockGuard lock(mutex);
    failure = std::current_exception();
    together.arrive_and_drop();
  };
  std::vector<Thread> threads;
  threads.reserve(devices.size());
  for (std::size_t d = 0; d < devices.size(); ++d) {
    try {
      threads.push_back(start_thread([&, d] {
        try {
          devices[d].device->attach_thread();
          body(d);
        } catch (...) {
          static_cast<void>(devices[d].device->recover());
          give_up();
        }
      }));
    } catch (const std::system_error&) {
      give_up();
    }
  }
  for (Thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

/// The part of one thread, which measures one device, side by side with its colleagues.
class Measurement {
 public:
  /// @param buffer bytes that are copied at once, whole columns: each device has twice as many
  Measurement(const MeasuredDevice& own, const MeasuredDevice* peer, index_t buffer, index_t column_bytes,
              std::barrier<>& together, const std::function<bool()>& must_stop)
      : device_(*own.device),
        own_(own),
        peer_(peer),
        together_(together),
        must_stop_(must_stop),
        buffer_(buffer),
        column_bytes_(column_bytes) {
    extent_ = {.column_bytes = column_bytes, .columns = buffer / column_bytes};
  }

  /// Every device comes to each of these at the same time. Rates are of this device.
  void run() {
    fill<double>(memory_, 2 * static_cast<std::size_t>(buffer_));
    pageable = links();
    // Threads that carry memory carry what we lock ourselves, too: there is nothing to be learnt then.
    if (device_.info().copy_threads == 0) {
      const device::HostRange range{memory_.data(), memory_.data() + memory_.size()};
      const auto pinning = device_.pin_host(std::span(&range, 1));
      page_locked = links();
    }
    peer_rate = peer_ != nullptr ? rate({StreamKind::peer}) : 0;
    for (const ScalarType type : scalar_types) {
      meet();
      flops_per_s[type] = dispatch(type, [&]<Scalar T>(T) { return kernel_rate<T>(type); });
    }
  }

  LinkRates pageable, page_locked;
  double peer_rate = 0;
  RatesByType flops_per_s;

 private:
  /// Measurements begin together.
  void meet() {
    if (must_stop_ && must_stop_()) throw Interrupted();
    together_.arrive_and_wait();
  }

  LinkRates links() {
    extent_.columns = buffer_ / column_bytes_;
    // The first copy of a buffer finds it in no cache. Where it takes long, a part of it tells enough.
    const double seconds = bytes() / rate({StreamKind::up});
    if (seconds > lengthy_copy_seconds) {
      const double part = static_cast<double>(extent_.columns) * lengthy_copy_seconds / seconds;
      extent_.columns = std::max<index_t>(1, static_cast<index_t>(part));
    }
    static_cast<void>(rate({StreamKind::down}));  // slots and threads of this direction begin, too
    LinkRates rates;
    rates.up = rate({StreamKind::up});
    rates.down = rate({StreamKind::down});
    meet();
    const auto [up_begin, up_end] = copy({StreamKind::up});
    const auto [down_begin, down_end] = copy({StreamKind::down});
    const double both_seconds =
        std::max(wait_for(up_end), wait_for(down_end)) - std::min(wait_for(up_begin), wait_for(down_begin));
    rates.both = 2 * bytes() / std::max(both_seconds, shortest);
    return rates;
  }

  double bytes() const { return static_cast<double>(copies) * static_cast<double>(extent_.bytes()); }

  /// While all devices do the same.
  double rate(StreamId stream) {
    meet();
    const auto [begin, end] = copy(stream);
    const double seconds = wait_for(end) - wait_for(begin);
    return bytes() / std::max(seconds, shortest);
  }

  std::pair<device::EventPtr, device::EventPtr> copy(StreamId stream) {
    // Downwards, and for peers, from the other half of the memory, and to the other half of the host's, so that both
    // directions may run at once.
    const bool down = stream.kind == StreamKind::down;
    const Block host{memory_.data() + (down ? buffer_ : 0), column_bytes_};
    const Block here{own_.memory + (down ? buffer_ : 0), column_bytes_};
    auto begin = device_.record(stream);
    for (int i = 0; i < copies; ++i) {
      if (stream.kind == StreamKind::up) device_.copy_up(here, host, extent_);
      if (stream.kind == StreamKind::down) device_.copy_down(host, here, extent_);
      if (stream.kind == StreamKind::peer)
        device_.copy_peer(here, *peer_->device, {peer_->memory + buffer_, column_bytes_}, extent_);
    }
    return {std::move(begin), device_.record(stream)};
  }

  /// Tiles on all compute streams, larger and larger ones until they are as large as tiles get, fill the memory or take
  /// long.
  template <Scalar T>
  double kernel_rate(ScalarType type) {
    const auto fits = [&](index_t tile) { return bytes_of_tiles(tile, sizeof(T)) <= own_.bytes; };
    const index_t largest_tile = device_.info().profile.tiles.largest;
    for (index_t tile = smallest_tile;; tile *= 2) {
      if (must_stop_ && must_stop_()) throw Interrupted();
      const std::size_t bytes = tile_bytes<T>(tile);
      fill<T>(memory_, bytes);
      device_.copy_up({own_.memory, static_cast<index_t>(bytes)}, {memory_.data(), static_cast<index_t>(bytes)},
                      {.column_bytes = static_cast<index_t>(bytes), .columns = 1});
      wait_for(device_.record({StreamKind::up}));
      multiply<T>(type, tile, 1);  // loads the kernel
      double seconds = multiply<T>(type, tile, 1);
      const bool last = 2 * tile > largest_tile || seconds > lengthy_seconds || !fits(2 * tile);
      if (!last) continue;
      int repeats = 1;
      if (seconds < kernel_seconds) {
        repeats = static_cast<int>(kernel_seconds / std::max(seconds, shortest)) + 1;
        seconds = multiply<T>(type, tile, repeats);
      }
      return repeats * device::compute_streams * flops_of(product(type, tile)) / std::max(seconds, shortest);
    }
  }

  template <Scalar T>
  static std::size_t tile_bytes(index_t tile) {
    return static_cast<std::size_t>(tile * tile) * sizeof(T);
  }

  static Level3 product(ScalarType type, index_t tile) {
    return {.type = type, .m = tile, .n = tile, .k = tile, .lda = tile, .ldb = tile, .ldc = tile};
  }

  template <Scalar T>
  double multiply(ScalarType type, index_t tile, int repeats) {
    Level3 call = product(type, tile);
    call.alpha = 1;
    call.beta = 0;
    call.A = call.B = own_.memory;
    double begin = 0, end = 0;
    std::vector<device::EventPtr> begins, ends;
    for (int stream = 0; stream < device::compute_streams; ++stream) {
      call.C = own_.memory + static_cast<std::size_t>(1 + stream) * tile_bytes<T>(tile);
      begins.push_back(device_.record({StreamKind::compute, stream}));
      for (int i = 0; i < repeats; ++i) own_.ops->run(stream, call);
      ends.push_back(device_.record({StreamKind::compute, stream}));
    }
    for (std::size_t s = 0; s < ends.size(); ++s) {
      begin = s == 0 ? wait_for(begins[s]) : std::min(begin, wait_for(begins[s]));
      end = std::max(end, wait_for(ends[s]));
    }
    return end - begin;
  }

  device::Device& device_;
  const MeasuredDevice& own_;
  const MeasuredDevice* peer_;
  std::barrier<>& together_;
  const std::function<bool()>& must_stop_;
  index_t buffer_;
  index_t column_bytes_;
  Extent extent_;
  std::vector<std::byte> memory_;  // outlives the copies from it
};

/// Each kernel that tasks are made of, once, on tiles of zeros.
void run_each_kernel(const MeasuredDevice& device) {
  constexpr index_t tile = 64;
  const std::vector<std::byte> zeros(4 * static_cast<std::size_t>(tile * tile) * sizeof(std::complex<double>));
  const auto bytes = static_cast<index_t>(zeros.size());
  device.device->copy_up({device.memory, bytes}, {const_cast<std::byte*>(zeros.data()), bytes},
                         {.column_bytes = bytes, .columns = 1});
  wait_for(device.device->record({StreamKind::up}));
  std::byte* const A = device.memory;
  std::byte* const B = A + bytes / 4;
  std::byte* const C = B + bytes / 4;
  for (const ScalarType type : scalar_types) {
    for (const Routine routine : level3_routines) {
      Level3 call{.routine = routine, .type = type, .m = tile, .n = tile};
      if (!exists(call.routine, type)) continue;
      if (call.has_k()) call.k = tile;
      call.A = A;
      call.B = B;
      call.C = C;
      call.lda = call.ldb = call.ldc = tile;
      call.diag = Diag::unit;
      device.ops->run(0, call);
    }
    Level3 product{.type = type, .m = tile, .n = tile, .k = tile};
    device.ops->run_batch(0,
                          {.common = product,
                           .count = 1,
                           .m = {.of_all = tile},
                           .n = {.of_all = tile},
                           .k = {.of_all = tile},
                           .lda = {.of_all = tile},
                           .ldb = {.of_all = tile},
                           .ldc = {.of_all = tile},
                           .A = {.first = A},
                           .B = {.first = B},
                           .C = {.first = C}},
                          flops_of(product));
    device.ops->add(0, {.type = type, .m = tile, .n = tile, .factor = 1, .X = A, .ldx = tile, .C = C, .ldc = tile});
  }
  wait_for(device.device->record({StreamKind::compute, 0}));
  device.device->copy_down({const_cast<std::byte*>(zeros.data()), bytes}, {device.memory, bytes},
                           {.column_bytes = bytes, .columns = 1});
  wait_for(device.device->record({StreamKind::down}));
}

void require_memory(std::span<const MeasuredDevice> devices) {
  for (const MeasuredDevice& device : devices) {
    if (device.bytes < least_memory_bytes)
      throw OutOfDeviceMemory("this needs " + std::to_string(least_memory_bytes) + " bytes of each device");
  }
}

}  // namespace

std::size_t most_measured_bytes(const device::DeviceProfile& profile) {
  return std::max(2 * most_buffer_bytes, bytes_of_tiles(profile.tiles.largest, sizeof(std::complex<double>)));
}

Calibration calibrate(std::span<const MeasuredDevice> devices, const std::function<bool()>& must_stop) {
  require_memory(devices);
  std::size_t buffer = most_buffer_bytes;
  index_t column_bytes = shortest_column_bytes;
  bool connected = devices.size() > 1;
  for (const MeasuredDevice& one : devices) {
    buffer = std::min(buffer, one.bytes / 2);
    column_bytes = std::max(column_bytes, one.device->info().profile.segment_bytes);
    for (const MeasuredDevice& other : devices)
      connected = connected && (&one == &other || one.device->can_access(*other.device));
  }
  buffer -= buffer % static_cast<std::size_t>(column_bytes);
  std::barrier together(static_cast<std::ptrdiff_t>(devices.size()));
  std::vector<Measurement> measurements;
  measurements.reserve(devices.size());
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const MeasuredDevice* const peer = connected ? &devices[(d + 1) % devices.size()] : nullptr;
    measurements.emplace_back(devices[d], peer, static_cast<index_t>(buffer), column_bytes, together, must_stop);
  }
  on_all(devices, together, [&](std::size_t d) { measurements[d].run(); });

  Calibration sum;
  sum.devices = static_cast<int>(devices.size());
  for (const Measurement& measured : measurements) {
    for (const ScalarType type : scalar_types) sum.flops_per_s[type] += measured.flops_per_s[type];
    for (auto rates : {&Calibration::pageable, &Calibration::page_locked}) {
      const LinkRates& own = rates == &Calibration::pageable ? measured.pageable : measured.page_locked;
      (sum.*rates).up += own.up;
      (sum.*rates).down += own.down;
      (sum.*rates).both += own.both;
    }
    // The slowest is the one that others wait for.
    sum.peer_bytes_per_s =
        sum.peer_bytes_per_s > 0 ? std::min(sum.peer_bytes_per_s, measured.peer_rate) : measured.peer_rate;
  }
  return sum;
}

void warm_up(std::span<const MeasuredDevice> devices) {
  require_memory(devices);
  std::barrier together(static_cast<std::ptrdiff_t>(devices.size()));
  on_all(devices, together, [&](std::size_t d) { run_each_kernel(devices[d]); });
}

}  // namespace tessera::runtime
