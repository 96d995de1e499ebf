// The jobs of the runtime: a job is what devices compute of a call, attempt by attempt. It is one of three kinds: tasks
// over tiles (tiles/tile_job.hpp), batches of small problems (batches/batch_job.hpp), and problems that one device
// solves whole (whole/whole_job.hpp). Runtime::run() loops over the attempts, and calls the virtual functions.
//
// Invariants: until may_have_written(), the caller's memory is what it was, so that an exception lets the caller go
// elsewhere. From then on a job ends with all results in host memory, or with DeviceLost or what the CPU throws. Not
// thread-safe: one thread makes a job, runs it and reads what it tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/operation_log.hpp"
#include "runtime/devices/admission.hpp"
#include "runtime/devices/fresh_pages.hpp"
#include "runtime/devices/machine.hpp"
#include "runtime/statistics.hpp"

namespace tessera::runtime {

/// The devices that an attempt needs.
struct DeviceNeeds {
  enum class Kind : std::uint8_t {
    none,   ///< devices can do no more of the job
    alone,  ///< all devices, and no other job on them
    parts,  ///< a part of the memory of some devices, beside other jobs; without it, the caller plans again as long as
            ///< nothing may have been written
    replan  ///< the devices are not those that the job was planned for: the caller has to plan again
  };
  Kind kind = Kind::none;
  MemoryRequest request = {};  ///< of Kind::parts
};

/// Ranges of the matrices that are worth locking: most of their pages belong to them.
std::vector<device::HostRange> dense_ranges(std::span<const device::Touched> touched);

/// The state of a device after an attempt.
struct DeviceFate {
  enum class Kind : std::uint8_t {
    well,   ///< it has done its part, or took none, or has failed because another device did
    erred,  ///< it has failed, and can go on with other work
    lost
  };
  Kind kind = Kind::well;
  std::string error;  ///< empty: it is well
};

class Job {
 public:
  /// @param described what is known of the job before it runs @param devices their names
  Job(JobStatistics described, std::vector<std::string> devices);
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Loads what devices need for the job. Called before it is admitted, because the thread may hold the loader's lock.
  virtual void load() {}

  /// Whether devices could do more of it.
  virtual bool has_more() const = 0;
  /// @param capacities by device; no bytes where a device is lost, or left out of the job
  virtual DeviceNeeds needs(std::span<const DeviceCapacity> capacities) = 0;
  /// The caller's memory of which the job reads nothing, and writes all. @throws std::bad_alloc
  virtual std::vector<WrittenArea> only_written() const { return {}; }
  /// The caller's matrices that it reads and writes. @throws std::bad_alloc
  virtual std::vector<device::Touched> touched() const { return {}; }
  /// It touches others than these.
  virtual bool touches_more() const { return false; }
  /// Which matrices may be only on devices while the job runs.
  enum class Lazy : std::uint8_t {
    nothing,
    operands,  ///< perhaps: all is left to devices
    results    ///< these, too: there are no old values to be kept
  };
  /// Whether devices alone can do it, through copies of blocks. Else it is never lazy.
  virtual bool can_be_lazy() const { return false; }
  /// Between attempts.
  void set_lazy(Lazy lazy) { lazy_ = lazy; }
  /// How many bytes of each device's slab, from its beginning, the attempt uses; 0: the device takes no part.
  /// @param stay what needs() has asked for
  virtual std::vector<std::size_t> slab_bytes(const Admission::Stay& stay);
  /// Has the devices compute what is left, until it is done or some of them fail.
  /// @param fates by device; complete also where this throws
  /// @return false if nothing has begun
  virtual bool attempt(const Admission::Stay& stay, std::span<DeviceFate> fates) = 0;
  /// Computes the work that devices have left. Called once, when they do no more. @throws NoDeviceLeft,
  /// OutOfDeviceMemory if the job leaves that to its caller; exceptions of the CPU's computation
  virtual void finish_on_cpu() = 0;

  bool may_have_written() const { return may_have_written_; }
  Lazy lazy() const { return lazy_; }
  void count_restart() { ++statistics_.restarts; }
  /// The times of all that was done, by device. @pre statistics().device_s is set @throws std::bad_alloc
  void settle_times();
  JobStatistics& statistics() { return statistics_; }
  /// By device, the CPU last.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::vector<device::Operation>>& operations() const { return operations_; }

 protected:
  void note_writing() { may_have_written_ = true; }
  DeviceStatistics& of_device(std::size_t d) { return statistics_.devices[d]; }
  DeviceStatistics& of_cpu() { return by_cpu_; }
  /// Keeps what a device did, as far as there is memory for it.
  void keep_operations(std::size_t d, std::span<const device::Operation> operations);
  std::size_t cpu() const { return names_.size() - 1; }

 private:
  bool may_have_written_ = false;
  Lazy lazy_ = Lazy::nothing;
  JobStatistics statistics_;
  DeviceStatistics by_cpu_;
  std::vector<std::string> names_;
  std::vector<std::vector<device::Operation>> operations_;
};

}  // namespace tessera::runtime
