#include "runtime/calibration.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/level3.hpp"
#include "core/thread.hpp"

namespace tessera::runtime {
namespace {

using device::Block;
using device::EventStatus;
using device::Extent;
using device::StreamId;
using device::StreamKind;

// Columns as long as tiles have them where copy engines care, and enough of them to keep a link busy for some milliseconds.
constexpr index_t column_bytes = 32768;
constexpr std::size_t most_buffer_bytes = std::size_t{64} << 20;
constexpr std::size_t least_memory_bytes = std::size_t{4} << 20;
constexpr int copies = 4;
constexpr index_t largest_tile = 2048;
constexpr index_t smallest_tile = 128;
constexpr double lengthy_copy_seconds = 0.02;
constexpr double kernel_seconds = 0.02;  // of a measurement that counts
constexpr double lengthy_seconds = 0.2;  // of one that has told enough, on a slow device

double wait_for(const device::EventPtr& event) {
  while (event->status() == EventStatus::pending) std::this_thread::sleep_for(std::chrono::microseconds(20));
  if (event->status() == EventStatus::failed) throw DeviceLost("a device failed while it was measured");
  return event->completed_at();
}

/// Host memory that holds numbers: what kernels draw of power, and so their clock, depends on the data. A few thousand, again and again.
template <Scalar T>
std::vector<T> numbers(std::size_t bytes) {
  constexpr std::size_t period = 4093;  // a prime: columns differ
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<T> result(bytes / sizeof(T));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = i < period ? T(value(random)) : result[i - period];
  return result;
}

/// What one thread does for one device, side by side with its colleagues.
class Station {
 public:
  Station(const MeasuredDevice& own, const MeasuredDevice* peer, std::barrier<>& together)
      : device_(*own.device), own_(own), peer_(peer), together_(together) {
    if (own.bytes < least_memory_bytes)
      throw OutOfDeviceMemory("measuring needs " + std::to_string(least_memory_bytes) + " bytes of each device");
    const std::size_t buffer = std::min(most_buffer_bytes, own.bytes / 2);
    extent_ = {.column_bytes = column_bytes, .columns = static_cast<index_t>(buffer) / column_bytes};
  }

  /// Every device comes to each of these at the same time. Rates are of this device.
  void run() {
    device_.attach_thread();
    auto memory = numbers<double>(static_cast<std::size_t>(extent_.bytes()));
    const auto* const begin = reinterpret_cast<std::byte*>(memory.data());
    pageable = links(memory);
    {
      const device::HostRange range{begin, begin + extent_.bytes()};
      const auto pinning = device_.pin_host(std::span(&range, 1));
      page_locked = links(memory);
    }
    peer_rate = peer_ != nullptr ? rate({StreamKind::peer}) : 0;
    for (const ScalarType type : scalar_types) {
      together_.arrive_and_wait();
      flops_per_s[static_cast<std::size_t>(type)] = dispatch(type, [&]<Scalar T>(T) { return kernel_rate<T>(type); });
    }
  }

  LinkRates pageable, page_locked;
  double peer_rate = 0;
  std::array<double, 4> flops_per_s = {};

 private:
  LinkRates links(std::vector<double>& memory) {
    host_ = reinterpret_cast<std::byte*>(memory.data());
    // The first copy of a buffer finds it in no cache. Where it takes long, a part of it tells enough.
    const double seconds = bytes() / rate({StreamKind::up});
    if (seconds > lengthy_copy_seconds)
      extent_.columns = std::max<index_t>(
          1, static_cast<index_t>(static_cast<double>(extent_.columns) * lengthy_copy_seconds / seconds));
    LinkRates rates;
    rates.up = rate({StreamKind::up});
    rates.down = rate({StreamKind::down});
    together_.arrive_and_wait();
    const auto [up_begin, up_end] = copy({StreamKind::up});
    const auto [down_begin, down_end] = copy({StreamKind::down});
    const double both_seconds =
        std::max(wait_for(up_end), wait_for(down_end)) - std::min(wait_for(up_begin), wait_for(down_begin));
    rates.both = 2 * bytes() / std::max(both_seconds, 1e-9);
    return rates;
  }

  double bytes() const { return static_cast<double>(copies) * static_cast<double>(extent_.bytes()); }

  /// While all devices do the same.
  double rate(StreamId stream) {
    together_.arrive_and_wait();
    const auto [begin, end] = copy(stream);
    const double seconds = wait_for(end) - wait_for(begin);
    return bytes() / std::max(seconds, 1e-9);
  }

  std::pair<device::EventPtr, device::EventPtr> copy(StreamId stream) {
    const Block host{host_, column_bytes};
    // Downwards from the other half of the memory, so that both directions may run at once.
    const bool down = stream.kind == StreamKind::down;
    const Block here{own_.memory + (down ? extent_.bytes() : 0), column_bytes};
    auto begin = device_.record(stream);
    for (int i = 0; i < copies; ++i) {
      if (stream.kind == StreamKind::up) device_.copy_up(here, host, extent_);
      if (stream.kind == StreamKind::down) device_.copy_down(host, here, extent_);
      if (stream.kind == StreamKind::peer)
        device_.copy_peer(here, *peer_->device, {peer_->memory + extent_.bytes(), column_bytes}, extent_);
    }
    return {std::move(begin), device_.record(stream)};
  }

  /// Tiles on all compute streams, larger and larger ones until they are as large as tiles get or take long.
  template <Scalar T>
  double kernel_rate(ScalarType type) {
    const auto factors = numbers<T>(static_cast<std::size_t>(std::min<index_t>(
        extent_.bytes(), index_t{2} * largest_tile * largest_tile * static_cast<index_t>(sizeof(T)))));
    host_ = reinterpret_cast<std::byte*>(const_cast<T*>(factors.data()));
    double result = 0;
    for (index_t tile = smallest_tile; tile <= largest_tile; tile *= 2) {
      const std::size_t tile_bytes = static_cast<std::size_t>(tile * tile) * sizeof(T);
      if ((2 + device::compute_streams) * tile_bytes > own_.bytes || 2 * tile_bytes > factors.size() * sizeof(T)) break;
      device_.copy_up({own_.memory, static_cast<index_t>(2 * tile_bytes)},
                      {host_, static_cast<index_t>(2 * tile_bytes)},
                      {.column_bytes = static_cast<index_t>(2 * tile_bytes), .columns = 1});
      wait_for(device_.record({StreamKind::up}));
      multiply<T>(type, tile, 1);  // loads the kernel
      double seconds = multiply<T>(type, tile, 1);
      const bool last = tile == largest_tile || seconds > lengthy_seconds;
      int repeats = 1;
      if (last && seconds < kernel_seconds) {
        repeats = static_cast<int>(kernel_seconds / std::max(seconds, 1e-6)) + 1;
        seconds = multiply<T>(type, tile, repeats);
      }
      result =
          std::max(result, repeats * device::compute_streams * flops_of(product(type, tile)) / std::max(seconds, 1e-9));
      if (last) break;
    }
    return result;
  }

  static Level3 product(ScalarType type, index_t tile) {
    return {.type = type, .m = tile, .n = tile, .k = tile, .lda = tile, .ldb = tile, .ldc = tile};
  }

  template <Scalar T>
  double multiply(ScalarType type, index_t tile, int repeats) {
    const std::size_t tile_bytes = static_cast<std::size_t>(tile * tile) * sizeof(T);
    Level3 call = product(type, tile);
    call.alpha = 1;
    call.beta = 0;
    call.A = own_.memory;
    call.B = own_.memory + tile_bytes;
    double begin = 0, end = 0;
    std::vector<device::EventPtr> begins, ends;
    for (int stream = 0; stream < device::compute_streams; ++stream) {
      call.C = own_.memory + static_cast<std::size_t>(2 + stream) * tile_bytes;
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
  Extent extent_;
  std::byte* host_ = nullptr;
};

}  // namespace

Calibration calibrate(std::span<const MeasuredDevice> devices) {
  std::barrier together(static_cast<std::ptrdiff_t>(devices.size()));
  bool connected = devices.size() > 1;
  for (const MeasuredDevice& one : devices) {
    for (const MeasuredDevice& other : devices)
      connected = connected && (&one == &other || one.device->can_access(*other.device));
  }
  std::vector<Station> stations;
  stations.reserve(devices.size());
  for (std::size_t d = 0; d < devices.size(); ++d)
    stations.emplace_back(devices[d], connected ? &devices[(d + 1) % devices.size()] : nullptr, together);

  std::mutex mutex;
  std::exception_ptr failure;
  const auto give_up = [&] {
    const std::lock_guard lock(mutex);
    failure = std::current_exception();
    together.arrive_and_drop();  // the others go on without it
  };
  std::vector<std::thread> threads;
  for (Station& station : stations) {
    try {
      threads.push_back(start_thread([&] {
        try {
          station.run();
        } catch (...) {
          give_up();
        }
      }));
    } catch (const std::system_error&) {
      give_up();
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);

  Calibration sum;
  sum.devices = static_cast<int>(devices.size());
  for (const Station& station : stations) {
    for (std::size_t type = 0; type < sum.flops_per_s.size(); ++type)
      sum.flops_per_s[type] += station.flops_per_s[type];
    for (auto rates : {&Calibration::pageable, &Calibration::page_locked}) {
      const LinkRates& own = rates == &Calibration::pageable ? station.pageable : station.page_locked;
      (sum.*rates).up += own.up;
      (sum.*rates).down += own.down;
      (sum.*rates).both += own.both;
    }
    // The slowest is the one that others wait for.
    sum.peer_bytes_per_s =
        sum.peer_bytes_per_s > 0 ? std::min(sum.peer_bytes_per_s, station.peer_rate) : station.peer_rate;
  }
  return sum;
}

}  // namespace tessera::runtime
