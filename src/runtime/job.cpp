#include "runtime/job.hpp"

#include <algorithm>
#include <utility>

#include "core/reserve.hpp"

namespace tessera::runtime {

std::vector<device::HostRange> dense_ranges(std::span<const device::Touched> touched) {
  std::vector<device::HostRange> ranges;
  for (const auto& [matrix, use] : touched) {
    if (2 * matrix.column_bytes >= matrix.pitch_bytes) ranges.push_back(matrix.range());
  }
  return ranges;
}
namespace {

void add_times(DeviceStatistics& sum, const std::vector<device::Operation>& operations, double seconds) {
  std::vector<Interval> kernels;
  std::vector<Interval> all;
  for (const device::Operation& operation : operations) {
    all.push_back({operation.begin_s, operation.end_s});
    if (operation.stream.kind == device::StreamKind::compute) kernels.push_back(all.back());
  }
  sum.kernel_s = covered_seconds(std::move(kernels));
  const double busy_s = covered_seconds(std::move(all));
  sum.transfer_s = busy_s - sum.kernel_s;
  sum.other_s = std::max(0.0, seconds - busy_s);
}

double first_kernel_at(std::span<const std::vector<device::Operation>> operations) {
  double first_s = 0;
  for (const auto& of_device : operations) {
    for (const device::Operation& operation : of_device) {
      if (operation.stream.kind == device::StreamKind::compute && (first_s <= 0 || operation.begin_s < first_s))
        first_s = operation.begin_s;
    }
  }
  return first_s;
}

}  // namespace

Job::Job(JobStatistics described, std::vector<std::string> devices)
    : statistics_(std::move(described)), names_(std::move(devices)) {
  for (const std::string& name : names_) statistics_.devices.push_back({.device = name});
  names_.emplace_back(cpu_device);
  by_cpu_.device = names_.back();
  operations_.resize(names_.size());
}

std::vector<std::size_t> Job::slab_bytes(const Admission::Stay& stay) {
  std::vector<std::size_t> bytes;
  for (const Admission::Part& part : stay.parts()) bytes.push_back(part.bytes > 0 ? part.end() : 0);
  return bytes;
}

void Job::keep_operations(std::size_t d, std::span<const device::Operation> operations) {
  std::vector<device::Operation>& all = operations_[d];
  if (try_reserve(all, operations.size())) all.insert(all.end(), operations.begin(), operations.end());
}

void Job::settle_times() {
  if (by_cpu_.tasks > 0) statistics_.devices.push_back(by_cpu_);
  for (std::size_t d = 0; d < statistics_.devices.size(); ++d)
    add_times(statistics_.devices[d], operations_[d], statistics_.device_s);
  statistics_.first_kernel_at = first_kernel_at(std::span(operations_).first(operations_.size() - 1));
}

}  // namespace tessera::runtime
