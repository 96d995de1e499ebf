// The Level-3 routines on matrices in the memory of one GPU: what each of them is as launches. cuBLAS computes most
// products, large ones in double precision are those of dgemm.hpp, solves and products in place are recursions into
// products and leaves (plan/triangular_recursion.hpp, triangular_leaf.hpp), and calls with alpha == 0, of which cuBLAS
// does not say that they leave A and B unread in all routines, go to a kernel of our own.
//
// Arithmetic: cuBLAS's default math mode, which neither rounds to TF32 nor emulates a type by a narrower one. Pedantic
// mode would promise no more for the four BLAS types and forbids kernels. A user who turns emulation on for all of
// cuBLAS by its environment variables has asked for it, and gets it, but for the products of dgemm.hpp.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "core/level3.hpp"
#include "device/device_profile.hpp"
#include "kernels/cuda/dgemm.hpp"
#include "kernels/cuda/triangular_chain.hpp"
#include "kernels/cuda/triangular_leaf.hpp"
#include "kernels/plan/product_choice.hpp"

namespace tessera::kernels::cuda {

/// What became of a submission: cuBLAS and the runtime tell it differently.
struct Outcome {
  cublasStatus_t cublas = CUBLAS_STATUS_SUCCESS;
  cudaError_t cuda = cudaSuccess;
  bool is_good() const { return cublas == CUBLAS_STATUS_SUCCESS && cuda == cudaSuccess; }
};

/// Where calls go to.
struct Submission {
  cublasHandle_t handle = nullptr;  ///< set to the stream; pointer mode host
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  ///< of the caller, for operands that must be kept; not cuBLAS's own
  std::size_t workspace_bytes = 0;
  bool has_neighbours = false;   ///< other streams keep the GPU busy meanwhile
  void* chain_memory = nullptr;  ///< of this stream (triangular_chain.hpp); without it solves are leaves and products
};

class Level3Kernels {
 public:
  /// Loads the kernels for the GPU, which is current. @param profile stays with this
  cudaError_t load(int ordinal, const device::DeviceProfile& profile);
  /// And what Submission::chain_memory is for. @pre load()
  cudaError_t load_chains() { return load_chain_kernels(chain_strips_); }

  /// Submits the call: any routine, m, n >= 1. Operands lie in the GPU's memory, scalars are read before this returns.
  /// trmm takes B apart from C, or C itself. gemmt may leave anything in the triangle of C that it does not update.
  /// Never waits, and allocates nothing. Thread-safe where submissions differ. @pre load(); the GPU is current
  Outcome submit(const Level3& call, const Submission& to) const;

  /// A trsm that is done so, as far as `to` allows it.
  Outcome solve_triangle(const Level3& call, const plan::SolveChoice& choice, const Submission& to) const;

  /// A trmm that is done so.
  Outcome multiply_triangle(const Level3& call, const plan::ProductChoice& choice, const Submission& to) const;

  /// What submit() can make use of in Submission::workspace.
  static std::size_t workspace_bytes(const Level3& call);

 private:
  Outcome multiply(const Level3& call, const Submission& to) const;
  template <class Leaf>
  Outcome submit_in_parts(const Level3& call, index_t leaf_rows, const Submission& to, Leaf leaf) const;
  Outcome submit_in_place(const Level3& call, const Submission& to) const;

  HopperDgemm dgemm_;
  index_t multiprocessors_ = 0;
  index_t most_narrow_columns_ = 0;
  WidestStrips widest_strips_{};
  ChainStrips chain_strips_;
};

}  // namespace tessera::kernels::cuda
