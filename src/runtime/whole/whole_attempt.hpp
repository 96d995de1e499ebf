// A problem of LAPACK on its way through the memory of one device (calls/lapack_call.hpp): what it reads goes up, the
// device's library solves it, and what it writes comes down.
//
// Failure: nothing is written to the caller's matrices before all results are there. Results that overwrite no input
// come down first. Inputs that are overwritten are copied to host memory while the device computes, and put back if the
// device is lost while it writes. So a caller that gets an exception has its inputs as they were, and may go elsewhere.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calls/lapack_call.hpp"
#include "device/operation_log.hpp"
#include "kernels/backend.hpp"
#include "runtime/devices/host_copies.hpp"
#include "runtime/devices/signal.hpp"

namespace tessera::runtime {

/// How a problem lies in a device's memory.
class WholeLayout {
 public:
  /// @param memory of the device, where the problem is to lie; need not be there yet
  /// @param algorithm nullopt: what the solver chooses @throws NotAvailable as DenseSolver::space
  WholeLayout(const LapackCall& problem, std::byte* memory, kernels::DenseSolver& solver,
              std::optional<kernels::SvdAlgorithm> algorithm);

  struct Placed {
    LapackOperand operand;  ///< on the host
    std::byte* on_device = nullptr;
    bool is_overwritten = false;  ///< an input that results take the place of
    bool overwrites = false;      ///< a result that takes the place of an input
  };
  const std::vector<Placed>& operands() const { return operands_; }
  kernels::SvdAlgorithm algorithm() const { return algorithm_; }
  /// With the addresses on the device.
  const LapackCall& on_device() const { return on_device_; }
  kernels::DenseTelling* telling() const { return reinterpret_cast<kernels::DenseTelling*>(memory_); }
  std::byte* workspace() const { return memory_ + workspace_offset_; }
  const kernels::DenseSpace& space() const { return space_; }
  /// Of the device's memory, all together.
  std::size_t bytes() const { return workspace_offset_ + space_.device_bytes; }

 private:
  void place(const LapackCall& problem);

  std::byte* memory_;
  kernels::SvdAlgorithm algorithm_;
  LapackCall on_device_;
  std::vector<Placed> operands_;
  std::size_t workspace_offset_ = 0;
  kernels::DenseSpace space_;
};

class WholeAttempt {
 public:
  /// @param solver has been loaded @param memory see WholeLayout; there by the time of run()
  /// @param copies nullptr: inputs are not kept while results take their place
  WholeAttempt(const LapackCall& problem, device::Device& device, kernels::DenseSolver& solver, std::byte* memory,
               std::optional<kernels::SvdAlgorithm> algorithm, HostCopies* copies);
  /// The device has nothing to do for it any more.
  ~WholeAttempt();
  WholeAttempt(const WholeAttempt&) = delete;
  WholeAttempt& operator=(const WholeAttempt&) = delete;

  std::size_t bytes() const { return layout_.bytes(); }

  /// Solves the problem; its results are in host memory on return. By one thread, while nobody else uses the device.
  /// After an exception, see is_usable() and is_intact().
  /// @return LAPACK's info, 0 but for a matrix of hegvd that is not positive definite
  /// @throws UnsuitableNumbers, DeviceLost, WorkRefused, OutOfDeviceMemory, NotAvailable, std::bad_alloc
  index_t run();

  /// The device can go on.
  bool is_usable() const { return is_usable_; }
  /// The inputs of the problem are as they were.
  bool is_intact() const { return is_intact_; }

  /// The transfers and operations of the attempt.
  index_t bytes_up() const { return bytes_up_; }
  index_t bytes_down() const { return bytes_down_; }
  std::vector<device::Operation> take_operations();

 private:
  struct Kept {
    const WholeLayout::Placed* placed;
    HostCopies::CopyPtr copy;
  };

  index_t solve();
  void upload();
  void keep_inputs();
  void measure(const Norms& norms);
  void compute(kernels::SvdAlgorithm algorithm);
  void read_telling();
  void download(bool overwriting);
  void await_copies();
  void recover() noexcept;
  device::EventPtr timed(device::StreamId stream, const char* kernel, const std::function<index_t()>& submit);

  const LapackCall problem_;
  device::Device& device_;
  kernels::DenseSolver& solver_;
  HostCopies* const copies_;
  WholeLayout layout_;
  kernels::DenseTelling telling_;
  kernels::DenseOutcome outcome_;
  std::unique_ptr<device::HostMemory> host_workspace_;
  Signal copied_;
  std::vector<Kept> kept_;
  bool overwrites_now_ = false;  ///< results are taking the place of inputs
  bool is_usable_ = true;
  bool is_intact_ = true;
  index_t bytes_up_ = 0, bytes_down_ = 0;
  device::OperationLog log_;
};

}  // namespace tessera::runtime
