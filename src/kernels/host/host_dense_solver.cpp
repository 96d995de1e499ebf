#include "kernels/host/host_dense_solver.hpp"

#include <functional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/process.hpp"

namespace tessera::kernels {

void HostDenseSolver::load(Routine /*routine*/) {
  const std::lock_guard lock(mutex_);
  if (lapack_) return;
  if (!blas_) throw NotAvailable("a host device without a CPU BLAS has no LAPACK");
  lapack_ = std::make_unique<const DenseLapack>([this](const char* name) { return blas_->fortran(name); },
                                                blas_->integer_bits());
}

DenseSpace HostDenseSolver::space(const LapackCall& /*problem*/, SvdAlgorithm algorithm) {
  if (algorithm == SvdAlgorithm::polar) throw NotAvailable("LAPACK has no singular values by polar decomposition");
  // run() allocates in the host's memory. The slack is for some kernels of OpenBLAS (cgemv of Prescott, 0.3.21), which
  // read beyond a matrix.
  constexpr std::size_t slack = 65536;
  return {.device_bytes = slack};
}

void HostDenseSolver::measure(int compute_stream, const LapackCall& problem, DenseTelling* telling) {
  check(problem, telling);
  std::function<void()> work;
  if (device_.settings().compute) work = [problem, telling] { measure_here(problem, *telling); };
  device_.submit({device::StreamKind::compute, compute_stream}, std::move(work), 0);
}

void HostDenseSolver::run(int compute_stream, const LapackCall& problem, SvdAlgorithm /*algorithm*/,
                          const DenseWorkspace& /*workspace*/, DenseTelling* telling, DenseOutcome* outcome) {
  if (!lapack_) throw InternalError("a solver that was not loaded");
  check(problem, telling);
  std::function<void()> work;
  if (device_.settings().compute)
    work = [solve = lapack_->prepare(problem), blas = blas_, telling, outcome] {
      const process::Pass pass(process::Work::computing);
      telling->info = solve(*outcome);
    };
  const double rate = device_.settings().flops_per_s[problem.type];
  device_.submit({device::StreamKind::compute, compute_stream}, std::move(work),
                 rate > 0 ? flops_of(problem) / rate : 0);
}

void HostDenseSolver::check(const LapackCall& problem, const DenseTelling* telling) const {
  for (const LapackOperand& operand : LapackOperands(problem))
    check(operand.address, operand.ld * operand.element_bytes, {operand.rows * operand.element_bytes, operand.cols});
  check(telling, sizeof(DenseTelling), {sizeof(DenseTelling), 1});
}

/// Rejects an address that is not on the device. It is the caller's error, and a GPU would fail at it, too.
void HostDenseSolver::check(const void* address, index_t pitch_bytes, device::Extent extent) const {
  if (!device_.holds({static_cast<std::byte*>(const_cast<void*>(address)), pitch_bytes}, extent))
    throw InternalError("a matrix is not in the memory of " + device_.info().name);
}

}  // namespace tessera::kernels
