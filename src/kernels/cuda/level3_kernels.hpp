// The Level-3 routines on matrices in the memory of one GPU, as sequences of launches. cuBLAS computes most products.
// Large ones in double precision use dgemm.hpp. Solves and products in place are recursions into products and leaves
// (plan/triangular_recursion.hpp, triangular_leaf.hpp). Calls with alpha == 0 go to our own kernel, because cuBLAS does
// not promise for all routines that it leaves A and B unread then.
//
// Arithmetic: cuBLAS's default math mode, which neither rounds to TF32 nor emulates a type by a narrower one. Pedantic
// mode would promise no more for the four BLAS types, and would exclude some kernels. A user may turn on emulation for
// all of cuBLAS by its environment variables, and then gets it, except for the products of dgemm.hpp.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "calls/level3.hpp"
#include "device/device_profile.hpp"
#include "kernels/cuda/dgemm.hpp"
#include "kernels/cuda/triangular_chain.hpp"
#include "kernels/cuda/triangular_leaf.hpp"
#include "kernels/plan/product_choice.hpp"

namespace tessera::kernels::cuda {

/// The result of a submission. cuBLAS and the runtime have different error codes.
struct Outcome {
  cublasStatus_t cublas = CUBLAS_STATUS_SUCCESS;
  cudaError_t cuda = cudaSuccess;
  bool is_good() const { return cublas == CUBLAS_STATUS_SUCCESS && cuda == cudaSuccess; }
};

/// The destination of calls.
struct Submission {
  cublasHandle_t handle = nullptr;  ///< set to the stream; pointer mode host
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  ///< the caller's memory for operands that must be kept; not cuBLAS's own workspace
  std::size_t workspace_bytes = 0;
  bool has_neighbours = false;   ///< other streams keep the GPU busy meanwhile
  void* chain_memory = nullptr;  ///< of this stream (triangular_chain.hpp); without it solves use leaves and products
};

class Level3Kernels {
 public:
  /// Loads the kernels for the current GPU. @param profile is copied
  cudaError_t load(int ordinal, const device::DeviceProfile& profile);
  /// Loads the kernels that use Submission::chain_memory. @pre load()
  cudaError_t load_chains() { return load_chain_kernels(chain_strips_); }

  /// Submits the call: any routine, m, n >= 1. Operands lie in the GPU's memory; scalars are read before this returns.
  /// In trmm B and C are separate, or the same. gemmt may leave anything in the triangle of C that it does not update.
  /// Never waits, and allocates nothing. Thread-safe for different submissions. @pre load(); the GPU is current
  Outcome submit(const Level3& call, const Submission& to) const;

  /// Whether submit() uses Submission::chain_memory for a trsm.
  static bool takes_chain(const Level3& call);

  /// Computes a trsm according to `choice`, as far as `to` allows it.
  Outcome solve_triangle(const Level3& call, const plan::SolveChoice& choice, const Submission& to) const;

  /// Computes a trmm according to `choice`.
  Outcome multiply_triangle(const Level3& call, const plan::ProductChoice& choice, const Submission& to) const;

  /// Bytes of Submission::workspace that submit() can use.
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
