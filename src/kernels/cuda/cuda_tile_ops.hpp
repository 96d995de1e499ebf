// Tile kernels of a GPU: the Level-3 routines of level3_kernels.hpp on the device's compute streams, with one cuBLAS
// handle (and cuBLAS's own workspace) per stream.
//
// All handles are created with the device, on the thread that opens it, and none at the first use of its stream.
// cublasCreate() allocates device memory. That memory must be taken before the slab is reserved, which may take all
// that is free. A later allocation could also wait for running work. And workers must never make cuBLAS load libraries:
// they would deadlock with a caller that holds the loader's lock (Python multiplies matrices while it imports). Devices
// are opened side by side, so the time for the further handles of a device does not add up.
//
// The first batch loads the kernels of batches, of gemm or of LAPACK. Few programs have batches, and the others should
// start as fast as without them. That loading does not take the loader's lock, and no tiles that it could wait for run
// beside a batch. The first tile that is factored loads the kernels for it; all other tiles of its job wait for that
// one anyway. cuSOLVER, for panels, is loaded on the calling thread of the first job that has panels.
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

  void provide_chains();
  Submission submission(int compute_stream);
  void check(const char* what, cublasStatus_t status);
  void check(const char* what, cudaError_t error);
  void destroy() noexcept;

  device::cuda::CudaDevice& device_;
  Level3Kernels kernels_;
  ProductKernels products_;
  bool has_products_ = false;  ///< the kernels of products are loaded
  BatchKernels batches_;       ///< for the solves of LAPACK's routines
  LapackKernels lapack_{batches_};
  bool has_lapack_ = false;    ///< both are loaded
  bool has_cholesky_ = false;  ///< the kernels that factor() uses are loaded
  std::array<cublasHandle_t, device::compute_streams> handles_{};
  std::mutex panels_mutex_;
  std::unique_ptr<Panels, PanelsDeleter> panels_;  ///< null until they are loaded
  bool has_chains_ = false;                        ///< solves of few right-hand sides have what they need
  std::byte* chain_memory_ = nullptr;              ///< in the device's memory, for each stream
  int* info_ = nullptr;  ///< in the device's memory: the info of the tile that each stream factors
};

}  // namespace tessera::kernels::cuda
