// Solves whole problems on a GPU by cuSOLVER (dense_calls.hpp), on the device's compute streams. Problems that cuSOLVER
// lacks are composed of its routines and of products (composed_problems.cpp). load() opens cuSOLVER and creates a
// handle, on a caller's thread. Memory beside the matrices comes from the runtime.
//
// Singular values: cuSOLVER wants at least as many rows as columns. If A is wide it gets A^H = U' S V'^H; then U = V'
// and V^H = U'^H. The QR iteration returns V'^H, and the polar algorithm V'. A result in the wrong orientation is
// transposed.
#pragma once

#include <mutex>

#include "device/cuda/cuda_device.hpp"
#include "kernels/cuda/dense_calls.hpp"
#include "kernels/dense_solver.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels::cuda {

class CudaDenseSolver final : public DenseSolver {
 public:
  /// @param products the device's products
  CudaDenseSolver(device::cuda::CudaDevice& device, TileOps& products) : device_(device), products_(products) {}
  ~CudaDenseSolver() override;
  CudaDenseSolver(const CudaDenseSolver&) = delete;
  CudaDenseSolver& operator=(const CudaDenseSolver&) = delete;

  void load(Routine routine) override;
  SvdAlgorithm choose_svd(const LapackCall& problem) const override;
  DenseSpace space(const LapackCall& problem, SvdAlgorithm algorithm) override;
  void measure(int compute_stream, const LapackCall& problem, DenseTelling* telling) override;
  void run(int compute_stream, const LapackCall& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace,
           DenseTelling* telling, DenseOutcome* outcome) override;

 private:
  struct SvdPlan;
  struct LeastSquaresPlan;

  /// Selects the stream of a call. @return whether the stream accepts work
  bool begin(int compute_stream);
  void run_svd(const LapackCall& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace, int* info,
               DenseOutcome* outcome);
  void make_diagonals_real(const LapackCall& problem);
  /// @param aside memory for the diagonal's elements, contiguous
  void copy_diagonal(const LapackCall& problem, std::byte* aside, bool away);

  // composed_problems.cpp
  DenseSpace composed_space(const LapackCall& problem, SvdAlgorithm algorithm);
  void run_composed(const LapackCall& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace,
                    DenseTelling* telling, DenseOutcome* outcome);
  void reflect_block(const LapackCall& problem, const DenseWorkspace& workspace);
  void multiply_triangles(const LapackCall& problem, const DenseWorkspace& workspace);
  void invert_by_factors(const LapackCall& problem, const DenseWorkspace& workspace);
  void solve_least_squares(const LapackCall& problem, SvdAlgorithm algorithm, const DenseWorkspace& workspace,
                           DenseTelling* telling, DenseOutcome* outcome);
  /// Factors the tall matrix. Of a problem without an operation it also multiplies B by Q^H.
  void factor_tall(const LapackCall& problem, const LeastSquaresPlan& plan);
  void divide_by_triangle(const LapackCall& problem, SvdAlgorithm algorithm, const LeastSquaresPlan& plan,
                          const DenseWorkspace& rest, DenseTelling* telling, DenseOutcome* outcome);
  void multiply(const Level3& call);

  /// @throws NotAvailable if cuSOLVER does not support it
  void require_taken(const char* what, cusolverStatus_t status);
  void require(const char* what, cusolverStatus_t status);
  void require(const char* what, cudaError_t error);

  device::cuda::CudaDevice& device_;
  TileOps& products_;
  std::mutex mutex_;  // guards dn_ while it is created
  DenseHandle dn_;
  int compute_stream_ = 0;         ///< of the current call
  cudaStream_t stream_ = nullptr;  ///< that compute stream
};

}  // namespace tessera::kernels::cuda
