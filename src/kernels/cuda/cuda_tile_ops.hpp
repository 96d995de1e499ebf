// Tile kernels of a GPU: the Level-3 routines of level3_kernels.hpp on the device's compute streams, one cuBLAS handle (with cuBLAS's own
// workspace) per stream.
//
// The handles are all made with the device, on the thread that opens it, none at the first use of its stream. cublasCreate() allocates
// device memory: that must not be counted as free when the slab is reserved, which may take what is left, and allocating it later
// could wait for work that is under way. And workers never make cuBLAS load libraries, which would deadlock with a caller that holds
// the loader's lock (Python multiplies matrices while it imports). What the further handles of a device cost is paid on all devices
// at once.
//
// Kernels of batches, of gemm or of LAPACK, are loaded by the first batch: few programs have any, and no start is to
// take longer for them. The loader's lock has no part in that, and beside a batch no tiles are computed that it could
// wait for. Those that factor blocks of a tile are loaded by the first tile, for which all others of its job wait;
// cuSOLVER, for panels, by the thread that brings the first job that has any.
#pragma once

#include <cublas_v2.h>

#include <array>
#include <memory>
#include <mutex>

#include "device/cuda/cuda_device.hpp"
#include "kernels/cuda/batch_kernels.hpp"
#include "kernels/cuda/lapack_kernels.hpp"
#include "kernels/cuda/level3_kernels.hpp"
#include "kernels/cuda/product_kernels.hpp"
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
  void mirror(int compute_stream, const Mirroring& tile) override;
  void factor(int compute_stream, const TileFactorization& tile) override;
  void load_panels() override;
  void factor_panel(int compute_stream, const Panel& panel, index_t first, index_t columns) override;
  void apply_panel(int compute_stream, const PanelUpdate& update) override;
  void run_batch(int compute_stream, const Level3Batch& batch, double flops) override;
  void run_lapack_batch(int compute_stream, const LapackBatch& batch, const Workspace& workspace,
                        double flops) override;

 private:
  class Panels;  ///< cuda_panels.cpp
  struct PanelsDeleter {
    void operator()(Panels* panels) const;
  };

  Submission submission(int compute_stream);
  void check(const char* what, cublasStatus_t status);
  void check(const char* what, cudaError_t error);
  void destroy() noexcept;

  device::cuda::CudaDevice& device_;
  Level3Kernels kernels_;
  ProductKernels products_;
  bool has_products_ = false;  ///< they are loaded
  BatchKernels batches_;       ///< for the solves of LAPACK's routines
  LapackKernels lapack_{batches_};
  bool has_lapack_ = false;    ///< both are loaded
  bool has_cholesky_ = false;  ///< what factor() takes of them is loaded
  std::array<cublasHandle_t, device::compute_streams> handles_{};
  std::mutex panels_mutex_;
  std::unique_ptr<Panels, PanelsDeleter> panels_;  ///< once they are loaded
  int* info_ = nullptr;                            ///< in the device's memory, of the tile that each stream factors
};

}  // namespace tessera::kernels::cuda
