// The lazy matrices of a runtime: host matrices whose newest values may be only on devices (residence/residence.hpp).
// Here is what a job has to know of them before it runs, and how host memory gets them.
//
// Invariants: host memory has a matrix as long as a HostUse of it lives. A job reads and writes only copies on devices
// alone, or host memory has its matrices while it runs. A matrix whose newest values are nowhere any more is lost:
// whatever asks for it throws DeviceLost. Batches and problems of unknown extent say nothing of their matrices: their
// callers hold these by a HostUse.
//
// Thread-safe. Calls that use one matrix follow each other as its owner orders them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/mutex.hpp"
#include "device/device.hpp"
#include "residence/mirrored_device.hpp"
#include "residence/residence.hpp"
#include "runtime/job.hpp"

namespace tessera::runtime {

class HostUse;

class LazyMatrices {
 public:
  /// Does some work on the devices while no job is there. @throws NotAvailable if the process is ending
  using BetweenJobs = std::function<void(const std::function<void()>&)>;

  /// All outlive this. @param mirrored all devices, or none: nothing stays there @param lose_device has it called no
  /// more
  LazyMatrices(residence::Residence& residence, const std::vector<residence::MirroredDevice*>& mirrored,
               BetweenJobs between_jobs, std::function<void(std::size_t)> lose_device);
  LazyMatrices(const LazyMatrices&) = delete;
  LazyMatrices& operator=(const LazyMatrices&) = delete;

  /// Quick. @return whether there are any
  bool any() const { return residence_.has_lazy(); }
  residence::Residence& residence() { return residence_; }

  /// Has host memory get all of these; devices keep their copies. Blocks.
  /// @throws DeviceLost if something of one is nowhere any more; NotAvailable if the process is ending, or a device
  /// cannot copy it now
  void settle(std::span<const residence::MatrixId> matrices);
  /// Copies a part of a matrix to other memory. Its own host memory stays as it is. Otherwise as settle().
  void read(residence::MatrixId matrix, const residence::Rectangle& part, device::Block to);
  /// Has `write` write a part of a matrix in host memory, in which it is newest then.
  /// @param write empty: it has been written
  void write(residence::MatrixId matrix, const residence::Rectangle& part, const std::function<void()>& write);
  void remove(residence::MatrixId matrix);

  /// A job begins. It becomes lazy, or host memory gets the matrices that it needs there.
  /// @param use set in the second case, for as long as the job runs @throws as settle()
  void begin(Job& job, std::span<const device::Touched> touched, std::optional<HostUse>& use);
  /// Devices do no more of the job, and something is left: it is lazy no more. @param use see begin()
  /// @throws as settle(); DeviceLost if its results are only on devices, and some are written
  void end_lazy(Job& job, std::span<const device::Touched> touched, std::optional<HostUse>& use);
  /// The job has failed while it wrote: lazy matrices among its results are lost. Takes no memory.
  void lose_results(std::span<const device::Touched> touched) noexcept;
  /// Takes no memory. @throws DeviceLost if one of these is lost
  void check_found(std::span<const device::Touched> touched) const;

 private:
  void check_found(residence::MatrixId matrix) const;
  bool is_stale(residence::MatrixId matrix) const;
  bool are_connected() const;
  void make_room(std::span<const residence::MatrixId> used);
  bool writes_any(std::span<const residence::MatrixId> matrices, std::span<const device::Touched> touched) const;
  void copy_down_only_copies(residence::MatrixId matrix, const residence::Rectangle& part, device::Block to)
      TESSERA_REQUIRES(copying_);
  void copy_again(std::size_t device, residence::MatrixId matrix, const residence::Rectangle& part, device::Block to)
      TESSERA_REQUIRES(copying_);

  residence::Residence& residence_;
  const std::vector<residence::MirroredDevice*>& mirrored_;
  const BetweenJobs between_jobs_;
  const std::function<void(std::size_t)> lose_device_;
  Mutex copying_;  ///< host memory of a matrix changes only while it is held, but for jobs and HostUse
};

/// Lets the host read and write matrices as long as it lives. Lazy ones among these are settled first, and results of
/// devices go to host memory, too. No device has a copy of what the host may write.
class HostUse {
 public:
  /// @throws as LazyMatrices::settle() @param matrices outlives this
  HostUse(LazyMatrices& matrices, std::span<const device::Touched> touched);
  ~HostUse();
  HostUse(const HostUse&) = delete;
  HostUse& operator=(const HostUse&) = delete;

 private:
  using Use = residence::Residence::HostUse;
  struct Held {
    residence::MatrixId matrix = 0;
    Use use = Use::reads;
  };
  void begin(std::span<const device::HostMatrix> matrices, Use use);
  void release();

  LazyMatrices& matrices_;
  std::vector<Held> held_;
};

/// A lazy matrix, for its owner.
class LazyMatrix {
 public:
  /// Rows are counted in bytes.
  using Part = residence::Rectangle;

  /// @param matrices outlives it @return nullptr if it overlaps another one
  static std::unique_ptr<LazyMatrix> make(LazyMatrices& matrices, const device::HostMatrix& place);
  /// It is no longer known. Host memory has what it had.
  ~LazyMatrix() { matrices_.remove(id_); }
  LazyMatrix(const LazyMatrix&) = delete;
  LazyMatrix& operator=(const LazyMatrix&) = delete;

  void settle() { matrices_.settle({&id_, 1}); }
  void read(const Part& part, device::Block to) { matrices_.read(id_, part, to); }
  /// Calls `write`, which writes the part in host memory. If that is all of the matrix, it is lost no more.
  /// @param write empty: it has been written @pre then host memory was newest there before
  void write(const Part& part, const std::function<void()>& write) { matrices_.write(id_, part, write); }
  index_t resident_bytes() const { return matrices_.residence().resident_bytes(place_); }

 private:
  LazyMatrix(LazyMatrices& matrices, const device::HostMatrix& place, residence::MatrixId id)
      : matrices_(matrices), place_(place), id_(id) {}

  LazyMatrices& matrices_;
  const device::HostMatrix place_;
  const residence::MatrixId id_;
};

}  // namespace tessera::runtime
