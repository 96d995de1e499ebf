// The rates of a modelled machine (modelled_run.hpp), and those of machines that were measured.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "device/device.hpp"

namespace tessera::test {

/// Rates per second.
struct ModelledMachine {
  int devices = 1;
  std::vector<double> speeds;  ///< of the devices' kernels and links, relative to the rates below; missing ones are 1
  bool connected = true;       ///< devices copy from each other
  unsigned seed = 0;           ///< for the order in which workers look; 0: in turns
  int lost = -1;  ///< this device is lost after `looks` looks, and the others restart with the tasks that are
                  ///< left
  int looks = 0;
  std::size_t memory_bytes = std::size_t{100} << 30;
  std::vector<std::size_t> memories;  ///< of the devices if they differ; missing ones are memory_bytes
  std::vector<RatesByType> rates;     ///< of the devices' kernels instead of `flops`; missing ones are `flops`
  std::optional<RatesByType> said;    ///< the rates that devices report; default: the true ones without `speeds`
  double flops = 58e12;               ///< of one device, double precision; single precision counts the same
  double panel_column_s = 3e-6;       ///< for each column of a panel,
  double panel_element_s = 1.3e-10;   ///< and for each of its elements
  double factor_flops = 1e12;         ///< of a tile on the diagonal: mostly small kernels in sequence
  double link_bytes = 50e9;           ///< of one device in one direction
  double host_bytes = 150e9;          ///< of all links in one direction
  double host_both = 160e9;           ///< of all links in both directions
  double peer_bytes = 350e9;          ///< into one device, and out of it
  bool keeps_old_values = false;      ///< on peers that have room; else not at all
  bool interrupts = true;             ///< a kernel waits while those of streams of higher rank run, as on a GPU
  double kernel_overhead = 8e-6;
  double copy_overhead = 8e-6;
  double short_column_bytes = 0;  ///< a copy of columns of this many bytes takes twice as long as one of long columns
  bool in_pages = false;          ///< instead: columns are copied in pieces that end at pages of 64 KiB of host memory
  double look = 15e-6;            ///< from the completion of work until the worker sees it
  double submission = 0;          ///< the worker's time per kernel; useful with one device, since all share the clock
  double poll = 0;                ///< likewise, per question whether an event has completed
  device::DeviceProfile profile = device::gpu_profile(9, 0);

  std::size_t memory_of(int device) const {
    const auto d = static_cast<std::size_t>(device);
    return d < memories.size() ? memories[d] : memory_bytes;
  }
};

/// One H200, or several of one host (docs/performance).
inline ModelledMachine modelled_h200(int devices) {
  ModelledMachine machine;
  machine.devices = devices;
  machine.host_both = devices == 1 ? 95e9 : 160e9;
  machine.short_column_bytes = 5000;  // docs/adr/0003-tall-tiles.md
  return machine;
}

/// Bytes per second that its copy engine moves beside kernels at most.
inline constexpr double h200_page_bytes = 54.5e9;

/// The same with the rates at which the copy engine moves columns beside kernels (docs/adr/0003-tall-tiles.md, pages of
/// 64 KiB). Nearer to the machine if leading dimensions are multiples of 64 KiB, too slow if they are not.
inline ModelledMachine modelled_h200_in_pages(int devices) {
  ModelledMachine machine = modelled_h200(devices);
  machine.link_bytes = h200_page_bytes;
  if (devices == 1) machine.host_both = 100e9;
  machine.in_pages = true;
  return machine;
}

/// The time of a copy of these columns relative to that at h200_page_bytes.
inline double slowness_in_pages(device::StreamKind kind, device::Block host, device::Extent extent) {
  constexpr std::uintptr_t page = 65536;
  constexpr double kib = 1024;
  constexpr double fastest = 1e-6 * h200_page_bytes;  // per microsecond
  if (host.pitch_bytes == extent.column_bytes) return 1;
  // Measured points, with linear interpolation.
  const auto microseconds = [](double bytes) {
    if (bytes <= 16 * kib) return bytes / 32e3;
    if (bytes <= 24 * kib) return 0.512;
    if (bytes <= 32 * kib) return 0.512 + (bytes / kib - 24) / 8 * 0.182;
    return std::max(bytes / fastest, 0.694 + std::min(bytes / kib - 32, 8.0) / 8 * 0.059);
  };
  const index_t columns = std::min<index_t>(extent.columns, 64);  // a sample for all
  double sum = 0;
  for (index_t j = 0; j < columns; ++j) {
    auto at = reinterpret_cast<std::uintptr_t>(host.address) + static_cast<std::uintptr_t>(j * host.pitch_bytes);
    for (const std::uintptr_t end = at + static_cast<std::uintptr_t>(extent.column_bytes); at < end;) {
      const std::uintptr_t next = std::min(end, (at / page + 1) * page);
      sum += microseconds(static_cast<double>(next - at));
      at = next;
    }
  }
  const double writing =
      kind == device::StreamKind::down && extent.column_bytes < static_cast<index_t>(page) ? 1.09 : 1;
  return std::max(1.0, sum * fastest / static_cast<double>(columns * extent.column_bytes)) * writing;
}

}  // namespace tessera::test
