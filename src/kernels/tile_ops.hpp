// Tile kernels of a device, without CUDA types. Operands are column-major tiles in the device's memory; calls only
// submit to one of the device's compute streams.
#pragma once

#include <cstddef>

#include "calls/level3.hpp"
#include "device/device.hpp"
#include "kernels/lapack_batch.hpp"
#include "kernels/level3_batch.hpp"
#include "kernels/panel.hpp"

namespace tessera::kernels {

/// C += factor * X, on an m x n tile, or on a triangle of a square tile. For a Hermitian result the imaginary parts of
/// X's diagonal count as zero.
struct Addition {
  ScalarType type = ScalarType::d;
  Part part = Part::full;
  bool hermitian = false;
  index_t m = 0, n = 0;
  AnyScalar factor = 1;
  const void* X = nullptr;
  index_t ldx = 0;
  void* C = nullptr;
  index_t ldc = 0;
};

/// Completes a symmetric or Hermitian n x n tile, of which one triangle is stored: the other becomes its mirror image.
/// In the Hermitian case it is conjugated, and the diagonal becomes real.
struct Mirroring {
  ScalarType type = ScalarType::d;
  Part stored = Part::lower;  ///< not full
  bool hermitian = false;
  index_t n = 0;
  void* A = nullptr;
  index_t lda = 0;
};

/// A = L L^H, or U^H U: the factor replaces the triangle of an n x n tile. Imaginary parts of its diagonal count as
/// zero.
struct TileFactorization {
  ScalarType type = ScalarType::d;
  Uplo uplo = Uplo::lower;
  index_t n = 0;
  void* A = nullptr;
  index_t lda = 0;
  /// LAPACK's info: 0, or the order of the first leading minor that is not positive definite. In host memory,
  /// preferably page-locked (Device::host_memory).
  int* info = nullptr;
};

constexpr double flops_of(const TileFactorization& tile) {
  const auto n = static_cast<double>(tile.n);
  return (is_complex(tile.type) ? 4 : 1) * real_flops_of(Routine::potrf, n, n, 0);
}

class TileOps {
 public:
  virtual ~TileOps() = default;
  /// Submits the call, whose operands lie in the device's memory; no dimension is 0. In trmm B and C are separate, or
  /// the same. gemmt may leave anything in the triangle of C that it does not update.
  /// @throws DeviceLost, WorkRefused, OutOfDeviceMemory. One thread at a time per device may call it.
  virtual void run(int compute_stream, const Level3& call) = 0;
  /// Submits the addition. @throws as run()
  virtual void add(int compute_stream, const Addition& addition) = 0;
  /// Submits the mirroring, n >= 1. @throws as run()
  virtual void mirror(int compute_stream, const Mirroring& tile) = 0;
  /// Submits the factorization, n >= 1. After a minor that is not positive definite the rest of the triangle holds
  /// anything.
  /// @throws as run()
  virtual void factor(int compute_stream, const TileFactorization& tile) = 0;
  /// Loads the code for panels, once. It runs on the caller's thread, which may hold the loader's lock, before a job
  /// with panels. Thread-safe. @throws NotAvailable if there is none, OutOfDeviceMemory, DeviceLost
  virtual void load_panels() {}
  /// Submits the factorization of the panel's columns [first, first + columns), and their application to all others.
  /// With the last ones the tail is complete. LU must take all columns at once. @throws as run()
  virtual void factor_panel(int compute_stream, const Panel& panel, index_t first, index_t columns) = 0;
  /// Submits the application of a panel to the matrix beside it. @throws as run()
  virtual void apply_panel(int compute_stream, const PanelUpdate& update) = 0;
  /// Submits a batch of gemm. Its arrays and matrices must lie in the device's memory when the stream reaches it.
  /// @param flops of all problems
  /// @throws as run()
  /// @pre no size is negative, leading dimensions are good
  virtual void run_batch(int compute_stream, const Level3Batch& batch, double flops) = 0;
  /// Submits a batch of one of LAPACK's routines, under the same conditions.
  /// @param workspace for potri and getri at least as much as the largest problem needs (inverse_bytes())
  /// @throws as run() @pre as run_batch(); the sizes have bounds
  virtual void run_lapack_batch(int compute_stream, const LapackBatch& batch, const Workspace& workspace,
                                double flops) = 0;
};

}  // namespace tessera::kernels
