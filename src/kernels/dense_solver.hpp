// Solvers of a device for whole problems of LAPACK (calls/lapack_call.hpp), without CUDA types: cuSOLVER on GPUs, the
// CPU's LAPACK on host devices. All matrices lie in the device's memory. A VectorJob is never overwrite here: vectors
// have memory of their own on the device, wherever they go on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "calls/lapack_call.hpp"

namespace tessera::kernels {

/// The algorithm for singular values.
enum class SvdAlgorithm : std::uint8_t {
  qr_iteration,  ///< QR iteration on a bidiagonal matrix, as in LAPACK's gesvd
  polar          ///< polar decomposition and eigenvalues; a failure is repeated with qr_iteration
};

/// Memory that a solver needs beside the matrices.
struct DenseSpace {
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
};
struct DenseWorkspace {
  std::byte* on_device = nullptr;  ///< 256-byte aligned
  std::byte* on_host = nullptr;    ///< in host memory, 64-byte aligned
  DenseSpace space;
};

/// Results that the device writes to its own memory.
struct DenseTelling {
  /// The largest absolute value in A and in B, of their elements or of real and imaginary parts; NaN if there is one.
  /// For least squares run() may update B's value once X has replaced B.
  double largest[2] = {};
  std::int32_t info = 0;  ///< as LAPACK's
  std::int32_t unused = 0;
};

/// Further results, which the host may read once the stream has come to the end of run().
struct DenseOutcome {
  std::int64_t found = 0;   ///< eigenvalues in the range, or the rank
  double perturbation = 0;  ///< of the matrix, by the polar algorithm
};

class DenseSolver {
 public:
  virtual ~DenseSolver() = default;
  /// Loads the libraries and kernels for a routine's problems, once. It runs on the caller's thread, which may hold the
  /// loader's lock. Thread-safe. @throws NotAvailable if there is no solver, OutOfDeviceMemory, DeviceLost
  virtual void load(Routine routine) = 0;
  /// The best algorithm here for a problem's singular values.
  virtual SvdAlgorithm choose_svd(const LapackCall& problem) const = 0;
  /// The memory that run() needs. The addresses in the problem are those that the matrices will have.
  /// @throws NotAvailable if the device cannot solve such a problem, whatever its numbers are
  virtual DenseSpace space(const LapackCall& problem, SvdAlgorithm algorithm) = 0;
  /// Submits a search to a compute stream for the largest elements of A, and of B if it is a matrix, in the parts that
  /// are read.
  /// @param telling in the device's memory
  /// @throws DeviceLost, WorkRefused
  virtual void measure(int compute_stream, const LapackCall& problem, DenseTelling* telling) = 0;
  /// Submits the problem; may wait for parts of it.
  /// @param telling its info is set
  /// @param outcome in host memory; must live until the stream has come to the end
  /// @throws DeviceLost, WorkRefused, OutOfDeviceMemory, std::bad_alloc
  virtual void run(int compute_stream, const LapackCall& problem, SvdAlgorithm algorithm,
                   const DenseWorkspace& workspace, DenseTelling* telling, DenseOutcome* outcome) = 0;
};

}  // namespace tessera::kernels
