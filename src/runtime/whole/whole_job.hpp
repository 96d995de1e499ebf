// The job of a problem of LAPACK that one device solves whole (whole_attempt.hpp). An attempt is one device, the quickest
// of those that have not tried; all devices are the job's meanwhile, since the calling thread drives the one.
//
// Invariant: what the problem reads is what it was, unless DeviceLost is thrown. So the CPU may solve the problem after
// any other exception, which is for the caller: the job itself never does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/devices/device_set.hpp"
#include "runtime/devices/host_copies.hpp"
#include "runtime/job.hpp"
#include "runtime/whole/whole_attempt.hpp"

namespace tessera::runtime {

/// An operand's memory, of which so many rows and columns are meant.
inline device::HostMatrix matrix_of(const LapackOperand& operand, index_t rows, index_t cols) {
  return {operand.address, operand.ld * operand.element_bytes, rows * operand.element_bytes, cols};
}
/// The matrices and arrays of a call. @param knows_end false: but for those that nobody knows the end of
std::vector<device::Touched> touched_by(const LapackCall& problem, bool knows_end = true);

/// One task, one step.
class WholeJob final : public Job {
 public:
  /// @param devices outlives it @param copies see WholeAttempt @param algorithm nullopt: what the device chooses
  WholeJob(DeviceSet& devices, HostCopies* copies, const LapackCall& problem,
           std::optional<kernels::SvdAlgorithm> algorithm);

  /// @throws NotAvailable if no device solves problems whole, NoDeviceLeft if none works
  void load() override;
  bool has_more() const override { return !is_solved_; }
  DeviceNeeds needs(std::span<const DeviceCapacity> capacities) override;
  /// @throws NotAvailable if devices do not solve such problems
  std::vector<std::size_t> slab_bytes(const Admission::Stay& stay) override;
  std::vector<WrittenArea> only_written() const override;
  std::vector<device::Touched> touched() const override;
  bool touches_more() const override { return has_unknown_end(); }
  /// @throws UnsuitableNumbers, NotAvailable, std::bad_alloc; DeviceLost if an input is torn
  bool attempt(const Admission::Stay& stay, std::span<DeviceFate> fates) override;
  /// @throws NoDeviceLeft, OutOfDeviceMemory unless a device has solved it
  void finish_on_cpu() override;

 private:
  std::optional<std::size_t> next_device(std::span<const DeviceCapacity> capacities) const;
  bool prepare(std::size_t d);
  /// Nobody knows yet how many vectors there are; the caller's memory may end behind them.
  bool has_unknown_end() const { return problem_.routine == Routine::heevr && problem_.range == EigenRange::values; }
  void add(bool is_done);

  DeviceSet& devices_;
  HostCopies* const copies_;
  const LapackCall& problem_;
  const std::optional<kernels::SvdAlgorithm> algorithm_;
  std::vector<bool> may_try_;  ///< by device
  std::size_t device_ = 0;     ///< of the attempt
  std::optional<WholeAttempt> attempt_;
  bool is_solved_ = false;
  std::string lack_;                   ///< of memory, of the device of the attempt; empty once that has begun
  std::string out_of_memory_, error_;  ///< why devices have not solved it, so far
};

}  // namespace tessera::runtime
