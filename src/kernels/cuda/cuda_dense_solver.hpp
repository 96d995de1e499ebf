// Solves whole problems on a GPU by cuSOLVER (dense_calls.hpp), on the device's compute streams; what that lacks is composed of
// what it has, and of products (composed_problems.cpp). cuSOLVER is opened, and a handle made, by load(), on the thread of a
// caller; what it needs beside the matrices is memory of the runtime's.
//
// Singular values: cuSOLVER wants at least as many rows as columns. Where A is wide it gets A^H = U' S V'^H, and U = V',
// V^H = U'^H. By QR iteration it returns V'^H, by the polar algorithm V'; what comes out the wrong way is transposed.
#pragma once

#include <mutex>

#include "device/cuda/cuda_device.hpp"
#include "kernels/cuda/dense_calls.hpp"
#include "kernels/dense_solver.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels::cuda {

class CudaDenseSolver final : public DenseSolver {
 public:
  /// @param products of the device
  CudaDenseSolver(device::cuda::CudaDevice& device, TileOps& products) : device_(device), products_(products) {}
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
  struct LeastSquaresPlan;

  /// @return whether the stream takes work; the GPU then is the handle's
  bool begin(int compute_stream);
  void run_svd(const DenseProblem& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace, int* info,
               DenseOutcome* outcome);
  void make_diagonals_real(const DenseProblem& problem);
  /// @param aside the diagonal's elements, one after the other
  void copy_diagonal(const DenseProblem& problem, std::byte* aside, bool away);

  // composed_problems.cpp
  DenseSpace composed_space(const DenseProblem& problem, SvdAlgorithm algorithm);
  void run_composed(const DenseProblem& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace,
                    DenseTelling* telling, DenseOutcome* outcome);
  void reflect_block(const DenseProblem& problem, const DenseWorkspace& workspace);
  void multiply_triangles(const DenseProblem& problem, const DenseWorkspace& workspace);
  void invert_by_factors(const DenseProblem& problem, const DenseWorkspace& workspace);
  void solve_least_squares(const DenseProblem& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace,
                           DenseTelling* telling, DenseOutcome* outcome);
  void divide_by_triangle(const DenseProblem& problem, SvdAlgorithm algorithm, const LeastSquaresPlan& plan,
                          const DenseWorkspace& rest, DenseTelling* telling, DenseOutcome* outcome);
  void multiply(const Level3& call);

  /// @throws NotAvailable if cuSOLVER does not take it
  void require_taken(const char* what, cusolverStatus_t status);
  void require(const char* what, cusolverStatus_t status);
  void require(const char* what, cudaError_t error);

  device::cuda::CudaDevice& device_;
  TileOps& products_;
  std::mutex mutex_;  // guards the next while it is made
  DenseHandle dn_;
  int compute_stream_ = 0;         ///< of the call
  cudaStream_t stream_ = nullptr;  ///< the same
};

}  // namespace tessera::kernels::cuda
