// Solves whole problems on a GPU by cuSOLVER (dense_calls.hpp), on the device's compute streams. cuSOLVER is opened, and a
// handle made, by load(), on the thread of a caller; what it needs beside the matrices is memory of the runtime's.
//
// Singular values: cuSOLVER wants at least as many rows as columns. Where A is wide it gets A^H = U' S V'^H, and U = V',
// V^H = U'^H. By QR iteration it returns V'^H, by the polar algorithm V'; what comes out the wrong way is transposed.
#pragma once

#include <mutex>

#include "device/cuda/cuda_device.hpp"
#include "kernels/cuda/dense_calls.hpp"
#include "kernels/dense_solver.hpp"

namespace tessera::kernels::cuda {

class CudaDenseSolver final : public DenseSolver {
 public:
  explicit CudaDenseSolver(device::cuda::CudaDevice& device) : device_(device) {}
  ~CudaDenseSolver() override;
  CudaDenseSolver(const CudaDenseSolver&) = delete;
  CudaDenseSolver& operator=(const CudaDenseSolver&) = delete;

  void load() override;
  SvdAlgorithm choose_svd(const DenseProblem& problem) const override;
  DenseSpace space(const DenseProblem& problem, SvdAlgorithm algorithm) override;
  void measure(int compute_stream, const DenseProblem& problem, DenseTelling* telling) override;
  void run(int compute_stream, const DenseProblem& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace,
           DenseTelling* telling, DenseOutcome* outcome) override;

 private:
  struct SvdPlan;

  /// @return whether the stream takes work; the GPU then is the handle's
  bool begin(int compute_stream);
  void run_svd(const DenseProblem& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace, int* info,
               DenseOutcome* outcome);
  void make_diagonals_real(const DenseProblem& problem);
  /// @param aside the diagonal's elements, one after the other
  void copy_diagonal(const DenseProblem& problem, std::byte* aside, bool away);
  void require(const char* what, cusolverStatus_t status);
  void require(const char* what, cudaError_t error);

  device::cuda::CudaDevice& device_;
  std::mutex mutex_;  // guards the next while it is made
  DenseHandle dn_;
  cudaStream_t stream_ = nullptr;  ///< of the call
};

}  // namespace tessera::kernels::cuda
