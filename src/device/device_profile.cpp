// Sources of the arithmetic: CUDA C++ Programming Guide, throughput of native arithmetic instructions; NVIDIA's data
// sheets, for tensor cores in double precision. A100: 19.5 TFLOP/s of 108 multiprocessors at 1.41 GHz. H200: 67 of 132
// at 1.98. B200: 37 of 148 at 1.97, where tensor cores are no faster than the other units.
#include "device/device_profile.hpp"

#include <algorithm>

namespace tessera::device {
namespace {

constexpr DeviceProfile with(const char* architecture, int compute_capability, RatesByType flops_per_clock) {
  DeviceProfile profile;
  profile.architecture = architecture;
  profile.compute_capability = compute_capability;
  profile.flops_per_clock = flops_per_clock;
  return profile;
}

/// The profile for PCIe 4.0 with half the rate: half as many bytes take the same time, and need half as many threads.
constexpr DeviceProfile on_pcie_4(DeviceProfile profile) {
  profile.share_bytes /= 2;
  profile.link_queue_bytes /= 2;
  profile.staging.most_threads /= 2;
  return profile;
}

/// The profile of an H200, docs/performance. The defaults were measured there.
constexpr DeviceProfile hopper() {
  DeviceProfile profile = with("Hopper", 90, {256, 256});
  profile.measured = true;
  return profile;
}

constexpr DeviceProfile gpu_profiles[] = {
    on_pcie_4(with("Ampere", 80, {128, 128})),
    on_pcie_4(with("Ampere for graphics", 86, {256, 4})),
    on_pcie_4(with("Ampere, embedded", 87, {256, 4})),
    on_pcie_4(with("Ada", 89, {256, 4})),
    hopper(),
    with("Blackwell", 100, {256, 128}),
    with("Blackwell Ultra", 103, {256, 4}),
    with("Blackwell for graphics", 120, {256, 4}),
    with("Blackwell, embedded", 121, {256, 4}),
};

}  // namespace

std::span<const DeviceProfile> known_gpu_profiles() { return gpu_profiles; }

DeviceProfile gpu_profile(int major, int minor, double single_per_double) {
  const auto* const known =
      std::find_if(std::begin(gpu_profiles), std::end(gpu_profiles),
                   [&](const DeviceProfile& profile) { return profile.compute_capability == 10 * major + minor; });
  if (known != std::end(gpu_profiles)) return *known;
  constexpr double single = 256;
  return with("unknown", 0, {single, single / std::max(single_per_double, 1.0)});
}

DeviceProfile host_profile() {
  DeviceProfile profile = with("host", 0, 0);
  profile.segment_bytes = profile.page_bytes = profile.share_bytes = 0;
  profile.page_lock_bytes_per_s = 0;
  profile.start_up_s = profile.further_start_up_s = 0;
  profile.call_overhead_s = 200e-6;
  return profile;
}

RatesByType matrix_rates(const DeviceProfile& profile, int multiprocessors, double clock_hz) {
  RatesByType rates;
  for (const ScalarType type : scalar_types)
    rates[type] = profile.attained_part * multiprocessors * clock_hz * profile.flops_per_clock[type];
  return rates;
}

std::vector<std::pair<std::string, double>> numbers_of(const DeviceProfile& p) {
  std::vector<std::pair<std::string, double>> numbers;
  for (const ScalarType type : scalar_types)
    numbers.emplace_back(std::string("flops_per_clock.") + letter(type), p.flops_per_clock[type]);
  const auto add = [&](const char* name, auto value) { numbers.emplace_back(name, static_cast<double>(value)); };
  add("attained_part", p.attained_part);
  add("link_part", p.link_part);
  add("segment_bytes", p.segment_bytes);
  add("page_bytes", p.page_bytes);
  add("share_bytes", p.share_bytes);
  add("link_queue_bytes", p.link_queue_bytes);
  add("page_lock_bytes_per_s", p.page_lock_bytes_per_s);
  add("triangle_cut.strip_columns", p.triangle_cut.strip_columns);
  add("triangle_cut.least_rectangle_bytes", p.triangle_cut.least_rectangle_bytes);
  add("scattered.column_bytes", p.scattered.column_bytes);
  add("scattered.pitches", p.scattered.pitches);
  add("scattered.least_bytes", p.scattered.least_bytes);
  add("triangle_blocks.up", p.triangle_blocks.up);
  add("triangle_blocks.down", p.triangle_blocks.down);
  add("triangle_blocks.down_beside", p.triangle_blocks.down_beside);
  add("triangle_blocks.peer", p.triangle_blocks.peer);
  add("staging.slot_bytes", p.staging.slot_bytes);
  add("staging.slots", p.staging.slots);
  add("staging.share_bytes", p.staging.share_bytes);
  add("staging.most_threads", p.staging.most_threads);
  add("staging.fewest_threads", p.staging.fewest_threads);
  add("staging.most_up", p.staging.most_up);
  add("staging.most_down", p.staging.most_down);
  add("staging.most_alone", p.staging.most_alone);
  add("staging.thread_bytes_per_s", p.staging.thread_bytes_per_s);
  add("staging.chunk_bytes", p.staging.chunk_bytes);
  add("memory_chunk_bytes", p.memory_chunk_bytes);
  add("start_up_s", p.start_up_s);
  add("further_start_up_s", p.further_start_up_s);
  add("call_overhead_s", p.call_overhead_s);
  add("backlog_s", p.backlog_s);
  add("short_kernel_s", p.short_kernel_s);
  add("ranked_kernel_s", p.ranked_kernel_s);
  add("tiles.largest", p.tiles.largest);
  add("tiles.smallest", p.tiles.smallest);
  add("tiles.smallest_tied", p.tiles.smallest_tied);
  add("tiles.smallest_halved", p.tiles.smallest_halved);
  add("tiles.narrowest", p.tiles.narrowest);
  add("tiles.task", p.tiles.task);
  add("tiles.lone_task", p.tiles.lone_task);
  add("tiles.fewest_solve_columns", p.tiles.fewest_solve_columns);
  add("tiles.most_solve_columns", p.tiles.most_solve_columns);
  add("tiles.solve", p.tiles.solve);
  add("tiles.lone_solve", p.tiles.lone_solve);
  add("dgemm.least_fill", p.dgemm.least_fill);
  add("dgemm.least_sum", p.dgemm.least_sum);
  add("most_narrow_solve_columns", p.most_narrow_solve_columns);
  return numbers;
}

}  // namespace tessera::device
