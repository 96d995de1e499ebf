// Tile kernels of a GPU by cuBLAS, one handle (with cuBLAS's own workspace) per compute stream. Calls with alpha == 0, of which
// cuBLAS does not say that they leave A and B unread in all routines, go to a kernel of our own. trsm is made of products
// and a kernel of our own (trsm.hpp). Large products in double precision are those of dgemm.hpp.
//
// The handles are all made with the device, on the thread that opens it, none at the first use of its stream. cublasCreate() allocates
// device memory: that must not be counted as free when the slab is reserved, which may take what is left, and allocating it later
// could wait for work that is under way. And workers never make cuBLAS load libraries, which would deadlock with a caller that holds
// the loader's lock (Python multiplies matrices while it imports). What the further handles of a device cost is paid on all devices
// at once.
// Arithmetic: cuBLAS's default math mode, which neither rounds to TF32 nor emulates a type by a narrower one. Pedantic
// mode would promise no more for the four BLAS types and forbids kernels. A user who turns emulation on for all of cuBLAS by
// its environment variables has asked for it, and gets it, but for the products of dgemm.hpp.
#pragma once

#include <cublas_v2.h>

#include <array>

#include "device/cuda/cuda_device.hpp"
#include "kernels/cuda/dgemm.hpp"
#include "kernels/tile_ops.hpp"

namespace tessera::kernels::cuda {

class CudaTileOps final : public TileOps {
 public:
  /// @throws OutOfDeviceMemory, DeviceLost
  explicit CudaTileOps(device::cuda::CudaDevice& device);
  ~CudaTileOps() override;
  CudaTileOps(const CudaTileOps&) = delete;
  CudaTileOps& operator=(const CudaTileOps&) = delete;

  void run(int compute_stream, const Level3& call) override;
  void add(int compute_stream, const Addition& addition) override;

 private:
  void check(const char* what, cublasStatus_t status);
  void check(const char* what, cudaError_t error);
  void destroy_handles() noexcept;
  void submit_call(const char* name, cublasHandle_t handle, cudaStream_t stream, const Level3& call);
  void solve(cublasHandle_t handle, cudaStream_t stream, const Level3& call);

  device::cuda::CudaDevice& device_;
  HopperDgemm dgemm_;
  std::array<cublasHandle_t, device::compute_streams> handles_{};
  int shared_bytes_ = 0;  // that a thread block may have
};

}  // namespace tessera::kernels::cuda
