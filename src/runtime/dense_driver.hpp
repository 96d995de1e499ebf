// Problems of LAPACK that one device of a runtime solves whole (dense_job.hpp): which one, and what comes next if it
// fails.
#pragma once

#include <optional>
#include <span>

#include "runtime/dense_job.hpp"
#include "runtime/device_set.hpp"
#include "runtime/job_record.hpp"

namespace tessera::runtime {

/// Of a problem: one task, one step.
class DenseRecord : public Record {
 public:
  DenseRecord(const DenseProblem& problem, std::span<const kernels::Accelerator> accelerators);
  /// What device d did, whether it came to an end or not.
  void add(std::size_t d, DenseJob& job, bool is_done);

 private:
  const DenseProblem& problem_;
};

/// Has devices try the problem one after the other, the quickest first, until one has solved it. The info is in the record.
/// @param copies see DenseJob @pre nobody else uses the devices
/// @throws UnsuitableNumbers, NotAvailable if devices do not solve such problems, NoDeviceLeft, OutOfDeviceMemory if none
/// has room, std::bad_alloc: what the problem reads is as it was, and no result is of use; DeviceLost if it is not
void solve_on_one(DeviceSet& devices, HostCopies* copies, const DenseProblem& problem,
                  std::optional<kernels::SvdAlgorithm> algorithm, DenseRecord& record);

}  // namespace tessera::runtime
