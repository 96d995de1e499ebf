// Solvers of a device for whole problems of LAPACK (core/dense_problem.hpp), without CUDA types: cuSOLVER on GPUs, the
// CPU's LAPACK on host devices. All matrices lie in the device's memory. A VectorJob is never overwrite here: vectors
// have memory of their own on the device, wherever they go on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dense_problem.hpp"

namespace tessera::kernels {

/// What singular values are found by.
enum class SvdAlgorithm : std::uint8_t {
  qr_iteration,  ///< of a bidiagonal matrix, as LAPACK's gesvd
  polar          ///< polar decomposition and eigenvalues; may have to be repeated with the other one
};

/// Memory that a solver needs beside the matrices.
struct DenseSpace {
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
};
struct DenseWorkspace {
  std::byte* on_device = nullptr;  ///< 256-byte aligned
  std::byte* on_host = nullptr;    ///< of this host, 64-byte aligned
  DenseSpace space;
};

/// What the device tells, in its own memory.
struct DenseTelling {
  /// Of A's and B's elements, or their real and imaginary parts; NaN if one of them is. run() may look at B of least
  /// squares once more, when X is in its place.
  double largest[2] = {};
  std::int32_t info = 0;  ///< as LAPACK's
  std::int32_t unused = 0;
};

/// What the host learns beside it, once the stream has come to the end of run().
struct DenseOutcome {
  std::int64_t found = 0;   ///< eigenvalues in the range, or the rank
  double perturbation = 0;  ///< of the matrix, by the polar algorithm
};

class DenseSolver {
 public:
  virtual ~DenseSolver() = default;
  /// Loads what problems take, once. Called by the caller's thread, which may hold the loader's lock. Thread-safe.
  /// @throws NotAvailable if there is none of it, OutOfDeviceMemory, DeviceLost
  virtual void load() = 0;
  /// By which algorithm a problem's singular values are found best here.
  virtual SvdAlgorithm choose_svd(const DenseProblem& problem) const = 0;
  /// What run() needs. The addresses in the problem are those of the matrices to come.
  /// @throws NotAvailable if the device cannot solve such a problem, whatever its numbers are
  virtual DenseSpace space(const DenseProblem& problem, SvdAlgorithm algorithm) = 0;
  /// Submits to a compute stream the search for the largest elements of A, and of B where it is a matrix, as far as they are read.
  /// @param telling in the device's memory @throws DeviceLost, WorkRefused
  virtual void measure(int compute_stream, const DenseProblem& problem, DenseTelling* telling) = 0;
  /// Submits the problem; may wait for parts of it.
  /// @param telling its info is set @param outcome of the host; stays until the stream has come to the end
  /// @throws DeviceLost, WorkRefused, OutOfDeviceMemory, std::bad_alloc
  virtual void run(int compute_stream, const DenseProblem& problem, SvdAlgorithm algorithm,
                   const DenseWorkspace& workspace, DenseTelling* telling, DenseOutcome* outcome) = 0;
};

}  // namespace tessera::kernels
