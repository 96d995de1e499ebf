// Whole problems of LAPACK (calls/lapack_call.hpp) in host memory, by the LAPACK that comes with the CPU BLAS. Host
// devices use it.
#pragma once

#include <array>
#include <functional>

#include "kernels/dense_solver.hpp"

namespace tessera::kernels {

/// The entry points of LAPACK, all looked up at once. Its library must stay open. Thread-safe once constructed.
class DenseLapack {
 public:
  /// Finds a function by its Fortran name without prefix and suffix, or nullptr (CpuBlas::fortran).
  using Find = std::function<void*(const char* name)>;
  /// @throws NotAvailable if one function is missing
  /// @param integer_bits width of LAPACK's integers in arrays
  explicit DenseLapack(const Find& find, int integer_bits = 32);

  /// Allocates the memory that the problem needs beside its matrices. The result computes the problem, returns LAPACK's
  /// info, and writes the number of eigenvalues or the rank to `outcome`. It overwrites A wherever LAPACK does.
  /// @pre no VectorJob is overwrite
  /// @throws std::bad_alloc
  std::function<int(DenseOutcome& outcome)> prepare(const LapackCall& problem) const;

  /// Computes the problem at once, and looks up only the entry point that it needs. Factorizations are problems, too.
  /// @return LAPACK's info
  /// @pre and @throws as above
  static int compute(const Find& find, int integer_bits, const LapackCall& problem, DenseOutcome& outcome);

 private:
  void* function(const LapackCall& problem) const {
    return functions_[number_of(problem.routine)][static_cast<std::size_t>(problem.type)];
  }

  int integer_bits_;
  std::array<std::array<void*, 4>, routine_count> functions_{};
};

/// The largest element that the problem reads of one of its matrices, as in DenseTelling::largest.
double largest_element(ScalarType type, const LapackOperand& operand);

/// DenseTelling::largest of the problem. @pre its matrices lie in host memory
void measure_here(const LapackCall& problem, DenseTelling& telling);

}  // namespace tessera::kernels
