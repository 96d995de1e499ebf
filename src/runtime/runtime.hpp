// The runtime of one context: its devices, its part of their memory, a thread for each, and the loop that runs jobs on
// them. Callers on several threads are admitted in order of arrival. Called by routines and by the offload decision.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/config.hpp"
#include "device/device.hpp"
#include "kernels/backend.hpp"
#include "residence/residence.hpp"
#include "runtime/batches/batch_chunk.hpp"
#include "runtime/devices/machine.hpp"
#include "runtime/performance_model.hpp"
#include "runtime/statistics.hpp"
#include "runtime/tiles/cpu_worker.hpp"
#include "runtime/tiles/load_balance.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::runtime {

class Job;
class LazyMatrices;

class Runtime {
 public:
  using HostCompute = runtime::HostCompute;

  /// Takes the devices over, reserves their slabs and starts the workers.
  /// @param sharers processes that take memory of the same devices, this one included
  /// @param host_compute computes what the CPU does of a job, and finishes jobs whose devices have all failed; called
  ///                     on the thread that called run()
  /// @param idle_patience after which memory of the devices that no job uses is given back
  /// @throws OutOfDeviceMemory
  Runtime(std::vector<kernels::Accelerator> accelerators, const Config& config, HostCompute host_compute,
          int sharers = 1, std::chrono::nanoseconds idle_patience = std::chrono::seconds(5));
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Devices that still work.
  std::vector<const device::Device*> devices() const;

  /// The machines that a plan may count on now: see machines_of(). Memory that others take or give back changes them.
  /// @param type of the call, whose rates count
  /// @param looks false: what is known from the last look at the devices and from what they could not give since
  std::vector<Machine> machines(ScalarType type, bool looks = true) const;

  /// Runs a job to its end: lets devices attempt it as long as they can do more of it, leaves out those that fail, and
  /// has the CPU finish it. Thread-safe; blocks.
  /// @return false if the caller has to plan again: nothing has been done
  /// @throws DeviceLost where memory runs out once the caller's may have been written; before that std::bad_alloc; what
  /// the job throws
  bool run(Job& job);

  /// Runs the graph to its end: every output tile is in host memory on return. If devices fail on the way, the others
  /// go on, and at the last the CPU. Thread-safe; blocks.
  /// @param planned_for one of what machines() said when the graph was made, with as many of its devices as are to be
  /// used at once
  /// @param cpu what the CPU does of it meanwhile
  /// @return nothing if the devices have another memory than that by now: plan again, nothing has been done
  /// @throws OutOfDeviceMemory if some device cannot hold one step of the graph; C is untouched
  /// @throws DeviceLost if a device failed while an output tile was being written back over a C that the task needs
  /// (beta != 0), and there was no memory for the old value or it is not kept
  std::optional<JobStatistics> run(const TaskGraph& graph, const Machine& planned_for, const CpuHelp& cpu = {});

  /// Has the devices compute a batch of small problems; results are in host memory on return. The host computes
  /// problems that no device can hold, and those left when devices have failed. Thread-safe; blocks.
  /// @param compute for that; the batch is its caller's
  /// @throws std::bad_alloc, NoDeviceLeft if no result has been touched; what `compute` throws
  JobStatistics run_batch(const PackableBatch& batch, const HostBatchCompute& compute);

  /// Has one device solve a problem of LAPACK whole, in its own memory; results are in host memory on return. The
  /// problem has all devices to itself during an attempt. Thread-safe; blocks.
  /// @param algorithm of singular values; nullopt: what the device chooses @pre no size is 0
  /// @return with LAPACK's info
  /// @throws UnsuitableNumbers, NotAvailable, NoDeviceLeft, OutOfDeviceMemory, std::bad_alloc: the inputs are as they
  /// were, so that the CPU may solve the problem; DeviceLost if a device failed while results took the place of inputs
  /// of which there was no copy
  JobStatistics run_dense(const LapackCall& problem, std::optional<kernels::SvdAlgorithm> algorithm = std::nullopt);

  /// Memory of the host that devices reach at once, for what a job leaves beside its matrices; kept for the next one.
  /// Thread-safe. @pre let go of before the runtime is @throws std::bad_alloc
  std::shared_ptr<device::HostMemory> host_memory(std::size_t bytes);
  /// Processors of the host that threads beside a job may keep busy: this process's part of them. Thread-safe.
  int processors() const;

  /// Whether matrices stay on devices between calls.
  bool keeps_matrices() const;
  /// Bytes of these matrices that are on devices. Thread-safe.
  /// @param looks whether somebody has written them since; else all may be out of date
  index_t resident_bytes(std::span<const device::HostMatrix> matrices, bool looks = false) const;
  /// The matrices that devices keep copies of. Writers of a matrix that is known there must tell it.
  residence::Residence& residence();
  /// Those whose results stay on devices.
  LazyMatrices& lazy_matrices();

  /// Gives back the memory of the devices, which the next job takes anew. Happens by itself when no job has come for a
  /// while. Does nothing while there is a job. Thread-safe.
  void give_back_memory();
  /// Memory that is taken of the devices now, all together. Thread-safe.
  std::size_t committed_bytes() const;

  /// Measures the devices that still work, between two jobs. Thread-safe; blocks for some tenths of a second.
  /// @throws NotAvailable if there is no such device, or the process is ending; as runtime::calibrate()
  Calibration calibrate();
  /// The same, but gives way to a job that comes meanwhile, and to the end of the process. @return nothing if one did
  std::optional<Calibration> calibrate_unless_called();

  /// Has the devices that still work load their kernels, between two jobs. As calibrate().
  void warm_up();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tessera::runtime
