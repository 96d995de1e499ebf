// Problems of LAPACK that one device of a runtime solves whole (dense_job.hpp): which one, and what comes next if it
// fails.
#pragma once

#include <optional>
#include <span>
#include <vector>

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

/// By the calling thread, which may hold the loader's lock, before it has any devices to itself.
/// @return by device: whether it works and its solver is loaded @throws NotAvailable if that is so for none of them
std::vector<bool> load_solvers(DeviceSet& devices);

/// Has devices try the problem one after the other, the quickest first, until one has solved it. The info is in the record.
/// @param loaded by device, see load_solvers() @param copies see DenseJob @pre nobody else uses the devices
/// @throws UnsuitableNumbers, NotAvailable if devices do not solve such problems, NoDeviceLeft, OutOfDeviceMemory if none
/// has room, std::bad_alloc: what the problem reads is as it was, and no result is of use; DeviceLost if it is not
void solve_on_one(DeviceSet& devices, const std::vector<bool>& loaded, HostCopies* copies, const DenseProblem& problem,
                  std::optional<kernels::SvdAlgorithm> algorithm, DenseRecord& record);

}  // namespace tessera::runtime
