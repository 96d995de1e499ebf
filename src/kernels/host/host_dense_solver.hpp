// Solves whole problems on a host device: the CPU's LAPACK on the device's compute streams.
#pragma once

#include <memory>
#include <mutex>

#include "device/host/host_device.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "kernels/host/dense_lapack.hpp"

namespace tessera::kernels {

class HostDenseSolver final : public DenseSolver {
 public:
  /// @param blas nullptr: the solver solves nothing
  HostDenseSolver(device::HostDevice& device, std::shared_ptr<const CpuBlas> blas)
      : device_(device), blas_(std::move(blas)) {}

  void load(Routine routine) override;
  SvdAlgorithm choose_svd(const LapackCall& /*problem*/) const override { return SvdAlgorithm::qr_iteration; }
  DenseSpace space(const LapackCall& problem, SvdAlgorithm algorithm) override;
  void measure(int compute_stream, const LapackCall& problem, DenseTelling* telling) override;
  void run(int compute_stream, const LapackCall& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace,
           DenseTelling* telling, DenseOutcome* outcome) override;

 private:
  void check(const LapackCall& problem, const DenseTelling* telling) const;
  void check(const void* address, index_t pitch_bytes, device::Extent extent) const;

  device::HostDevice& device_;
  std::shared_ptr<const CpuBlas> blas_;
  std::mutex mutex_;  // guards lapack_ while it is loaded
  std::unique_ptr<const DenseLapack> lapack_;
};

}  // namespace tessera::kernels
